"""The part of the ocean that remembers the weather: three anomalies on 2 degrees, stepped in time.

Temperature and salinity of the mixed layer are carried along by the mean currents, pushed by the
heat flux and by the wind's Ekman drift across their mean gradients, and damped. Sea level (the
depth of the thermocline) is pumped by the curl of the wind and travels west as long Rossby waves.
What the weather of a pentad does shows in the next one for the larger part (see `_LATE`), so it can
be learnt from the boundary fields that a model is given.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .climatology import Climatology
from .currents import LEVELS_M, WATER_DENSITY, geostrophic, sea_level, wind_driven
from .grid import EARTH_RADIUS_M, Grid, Plane
from .pentads import PER_YEAR
from .textures import DriftingTextures
from .weather import Forcing, Weather

__all__ = ["SlowOcean", "State"]

COARSE = (90, 180)
_HEAT_CAPACITY = 4.0e3 * WATER_DENSITY
_FEEDBACK = 10.0  # W m-2 that a degree of anomaly gives back
_LATE = np.float32(0.75)  # share of a pentad's forcing that arrives in the next pentad
_SPIN_UP_ROWS = 2 * PER_YEAR
_DAY_S = 86400.0


@dataclass(frozen=True, kw_only=True)
class State:
    """One pentad on the coarse grid, each (90, 180) float32."""

    temperature: Plane  # anomaly of the mixed layer, K
    salinity: Plane  # psu
    height: Plane  # anomaly of sea level, m
    tau_x: Plane  # N m-2, all of it
    tau_y: Plane
    heat: Plane  # W m-2 into the ocean, all of it


class _Carrier:
    """Moves a field to where the mean current brings it in five days; bilinear."""

    def __init__(self, grid: Grid, east: Plane, north: Plane, days: float) -> None:
        ny, nx = grid.shape
        cell = np.deg2rad(180.0 / ny) * EARTH_RADIUS_M
        cosine = np.maximum(np.cos(np.deg2rad(grid.lat)), 0.15)[:, None]
        x = np.arange(nx)[None, :] - np.clip(east * days * _DAY_S / (cell * cosine), -3, 3)
        y = np.arange(ny)[:, None] - np.clip(north * days * _DAY_S / cell, -3, 3)
        y = np.clip(y, 0, ny - 1.001)
        left, low = np.floor(x).astype(np.int64), np.floor(y).astype(np.int64)
        to_right, to_high = (x - left).astype(np.float32), (y - low).astype(np.float32)
        self._taps: list[tuple[NDArray[np.int64], Plane]] = []
        for dy, wy in ((0, 1 - to_high), (1, to_high)):
            for dx, wx in ((0, 1 - to_right), (1, to_right)):
                self._taps.append(((low + dy) * nx + (left + dx) % nx, wy * wx))

    def __call__(self, field: Plane) -> Plane:
        result = np.zeros_like(field)
        for index, weight in self._taps:
            result += field.take(index) * weight
        return result


class SlowOcean:
    """A sequence that starts, spun up, at row 0: call `step` once for every row in turn."""

    def __init__(self, climatology: Climatology, seed: int) -> None:
        grid = Grid.regular(*COARSE)
        self.grid = grid
        self._weather = Weather(grid, climatology, seed)
        rng_seed = (seed, 103)
        self._rain = DriftingTextures(
            grid, seed=rng_seed, radius_deg=5.0, lifetime_days=30.0, speed=np.zeros(grid.shape[0])
        )
        self._ocean = (grid.sea_floor(climatology.depth) > 0).astype(np.float32)
        # On the equator the curl of the wind drives other motions than this.
        self._pumped = self._ocean * np.clip(np.abs(grid.lat) / 15, 0.1, 1)[:, None] ** 2
        self._pumped = self._pumped.astype(np.float32)
        temperature = grid.from_regular(climatology.temperature)
        salinity = grid.from_regular(climatology.salinity[0])
        self._mixed_layer = self._depth_of_mixing(temperature)
        # Under ice and near freezing the surface cannot cool, and hardly warms.
        self._free = np.clip((temperature[0] + 1.9) / 3.0, 0.0, 1.0).astype(np.float32)
        self._slope = {
            "temperature": (grid.eastward(temperature[0]), grid.northward(temperature[0])),
            "salinity": (grid.eastward(salinity), grid.northward(salinity)),
        }
        east, north = geostrophic(grid, sea_level(grid, climatology)[0])
        self._carry = _Carrier(grid, east, north, 5.0)
        self._carry_waves = _Carrier(grid, self._wave_speed(), np.zeros(COARSE, np.float32), 5.0)
        self._warm_tongue = self._el_nino_pattern()
        zero = np.zeros(COARSE, dtype=np.float32)
        self._temperature, self._salinity, self._height = zero, zero, zero
        self._pending: tuple[Plane, Plane, Plane] = (zero, zero, zero)
        for row in range(-_SPIN_UP_ROWS, 0):
            self.step(row, 5.0 * row)

    @staticmethod
    def _depth_of_mixing(temperature: Plane) -> Plane:
        """Metres to where the mean temperature is half a degree below the surface's; 30 to 80."""
        colder = temperature < temperature[:1] - 0.5
        depth = LEVELS_M[np.where(colder.any(axis=0), colder.argmax(axis=0), 18)]
        result: Plane = np.clip(depth, 30.0, 80.0).astype(np.float32)
        return result

    def _wave_speed(self) -> Plane:
        """Eastward speed (90, 180) of long Rossby waves, m/s: fast near the equator."""
        beta = 2 * 7.292e-5 * np.cos(np.deg2rad(self.grid.lat)) / EARTH_RADIUS_M
        f = self.grid.coriolis[:, 0].astype(np.float64)
        speed = -np.minimum(beta * 6.0 / (f**2 + 1e-12), 0.6)
        return np.repeat(speed[:, None], COARSE[1], axis=1).astype(np.float32)

    def _el_nino_pattern(self) -> Plane:
        """Warming of the cold tongue, K per unit of the index."""
        east = (self.grid.lon[None, :] - 245) / 40
        north = self.grid.lat[:, None] / 6
        return (1.1 * np.exp(-(east**2) - north**2)).astype(np.float32)

    def _tendencies(self, weather: Forcing, day: float) -> tuple[Plane, Plane, Plane]:
        """What the weather of one pentad adds to temperature, salinity and sea level."""
        step_s = np.float32(5 * _DAY_S)
        east, north = wind_driven(self.grid, weather.tau_x_anomaly, weather.tau_y_anomaly)
        drift_x, drift_y = east / self._mixed_layer, north / self._mixed_layer
        warming = weather.heat_anomaly / (np.float32(_HEAT_CAPACITY) * self._mixed_layer)
        t_x, t_y = self._slope["temperature"]
        warming -= drift_x * t_x + drift_y * t_y
        warming *= step_s
        warming += np.float32(weather.el_nino * 5 / 60) * self._warm_tongue
        s_x, s_y = self._slope["salinity"]
        salting = -(drift_x * s_x + drift_y * s_y) * step_s
        salting += np.float32(0.02) * self._rain.at(day)
        pumping = self.grid.eastward(east) + self.grid.northward(north)
        rising = np.clip(-pumping * step_s * np.float32(1 / 80), -0.02, 0.02) * self._pumped
        return warming * self._free, salting, rising

    def step(self, row: int, day: float) -> State:
        """Advance to the pentad at `row`, which is `day` days after the first one."""
        weather = self._weather.step(row, day)
        now = self._tendencies(weather, day)
        push = [
            _LATE * late + (1 - _LATE) * early
            for late, early in zip(self._pending, now, strict=True)
        ]
        self._pending = now
        damping = np.exp(-5 * _DAY_S * _FEEDBACK / (_HEAT_CAPACITY * self._mixed_layer) - 5 / 400)
        self._temperature = self._carry(self._temperature) * damping + push[0]
        self._salinity = self._carry(self._salinity) * np.float32(np.exp(-5 / 120)) + push[1]
        height = self._carry_waves(self._height) * np.float32(np.exp(-5 / 250)) + push[2]
        self._height = height * self._ocean
        return State(
            temperature=self._temperature,
            salinity=self._salinity,
            height=self._height,
            tau_x=weather.tau_x,
            tau_y=weather.tau_y,
            heat=weather.heat - np.float32(_FEEDBACK) * self._temperature,
        )
