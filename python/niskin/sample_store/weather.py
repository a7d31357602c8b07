"""Made weather over the real climatology: wind stress and heat flux at every pentad, on 2 degrees.

The winds are the mean seasonal winds plus the real patterns of eleven years of monthly anomalies,
each with a made series of the right memory, plus made travelling depressions. The flux follows the
wind (stronger wind cools), warm and cold advection, and made cloud.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .climatology import Climatology
from .grid import EARTH_RADIUS_M, Grid, Plane
from .pentads import year_phase
from .textures import DriftingTextures

__all__ = ["Forcing", "Weather", "harmonic_sum"]

_AIR_DENSITY_DRAG = 1.2 * 1.3e-3
_EL_NINO_YEARS = 3.6
_EL_NINO_MEMORY_YEARS = 2.5


def harmonic_sum(parts: Plane, phase: float) -> Plane:
    """Value at a phase of the year of (5, …) harmonics, or of (4, …) that lack the mean."""
    waves = [np.cos(phase), np.sin(phase), np.cos(2 * phase), np.sin(2 * phase)]
    if len(parts) == 5:
        waves.insert(0, 1.0)
    result = np.zeros(parts.shape[1:], dtype=np.float32)
    for wave, part in zip(waves, parts, strict=True):
        result += np.float32(wave) * part
    return result


@dataclass(frozen=True, kw_only=True)
class Forcing:
    """One pentad of weather, each (90, 180) float32."""

    tau_x: Plane  # N m-2, all of it
    tau_y: Plane
    tau_x_anomaly: Plane  # less its season
    tau_y_anomaly: Plane
    heat: Plane  # W m-2 into the ocean, before the ocean's own damping
    heat_anomaly: Plane
    el_nino: float  # the index that the tropical winds carry, about unit variance


class Weather:
    """A sequence: call `step` once for every pentad in turn."""

    def __init__(self, grid: Grid, climatology: Climatology, seed: int) -> None:
        self._grid = grid
        self._climatology = climatology
        self._rng = np.random.default_rng([seed, 100])
        lat = np.deg2rad(grid.lat)
        eastward = np.where(np.abs(grid.lat) > 25, 1.5, -1.0) / np.maximum(np.cos(lat), 0.2)
        self._storms = DriftingTextures(
            grid, seed=(seed, 101), radius_deg=6.0, lifetime_days=14.0, speed=eastward
        )
        self._cloud = DriftingTextures(
            grid, seed=(seed, 102), radius_deg=4.0, lifetime_days=18.0, speed=eastward * 0.3
        )
        memory = np.clip(climatology.wind_mode_memory.astype(np.float64), 0.1, 0.8)
        self._memory = memory ** (5 / 30)
        self._series = self._rng.standard_normal(len(memory))
        self._el_nino = np.array([0.0, 0.0])
        # Depressions are as strong as the mean wind lets one expect: calm tropics, stormy fifties.
        self._storminess = 0.55 * np.clip(climatology.wind_speed[0] - 3.5, 0.8, 6.0)
        stretch = np.deg2rad(6.0)
        gradient = 1.0 / stretch  # a texture of unit variance changes by about this per radian
        self._wind_per_texture = np.float32(EARTH_RADIUS_M / gradient)
        self._pattern = self._el_nino_winds()
        self._variance = self._expected_variance()
        warm = grid.from_regular(climatology.temperature[0])
        self._latent = np.clip(4.0 + 0.45 * warm, 4.0, 16.0).astype(np.float32)
        # Wind towards the pole brings warm air over the storm tracks.
        self._warm_wind = (4.0 * np.sin(2 * lat) * np.abs(np.sin(2 * lat)))[:, None]
        self._warm_wind = self._warm_wind.astype(np.float32)

    def _el_nino_winds(self) -> Plane:
        """Westerly anomaly over the western and central equatorial Pacific, m/s."""
        east = (self._grid.lon[None, :] - 195) / 30
        north = self._grid.lat[:, None] / 7
        return (2.2 * np.exp(-(east**2) - north**2)).astype(np.float32)

    def _next_el_nino(self) -> float:
        """A damped oscillator driven by noise."""
        decay = np.exp(-5 / (365 * _EL_NINO_MEMORY_YEARS))
        turn = 2 * np.pi * 5 / (365 * _EL_NINO_YEARS)
        x, y = self._el_nino
        kick = np.sqrt(1 - decay**2) * self._rng.standard_normal(2)
        cosine, sine = np.cos(turn), np.sin(turn)
        self._el_nino = decay * np.array([cosine * x - sine * y, sine * x + cosine * y]) + kick
        return float(self._el_nino[0])

    def _storm_winds(self, day: float) -> tuple[Plane, Plane]:
        storms = self._storms.at(day)
        strength = self._wind_per_texture * self._storminess
        return -self._grid.northward(storms) * strength, self._grid.eastward(storms) * strength

    def _expected_variance(self) -> Plane:
        """Mean square (90, 180) of one component of all made winds, m2 s-2."""
        samples = [self._storm_winds(-1e5 + 20.0 * i) for i in range(16)]
        storms = np.mean([u * u + v * v for u, v in samples], axis=(0, 2))[:, None] / 2
        modes = (self._climatology.wind_modes**2).sum(axis=(0, 1)) / 2
        result: Plane = (storms + modes + self._pattern**2 / 2).astype(np.float32)
        return result

    def _slow_winds(self) -> tuple[Plane, Plane]:
        winds = np.zeros((2, *self._grid.shape), dtype=np.float32)
        for mode, value in enumerate(self._series):
            winds += np.float32(value) * self._climatology.wind_modes[:, mode]
        return winds[0], winds[1]

    def step(self, row: int, day: float) -> Forcing:
        """The pentad at `row`, `day` days after row 0; both are negative in the spin-up."""
        climatology = self._climatology
        phase = year_phase(row)
        self._series *= self._memory
        self._series += np.sqrt(1 - self._memory**2) * self._rng.standard_normal(len(self._memory))
        el_nino = self._next_el_nino()
        u, v = self._slow_winds()
        storm_u, storm_v = self._storm_winds(day)
        u += storm_u + np.float32(el_nino) * self._pattern
        v += storm_v

        mean_u = harmonic_sum(climatology.wind[0], phase)
        mean_v = harmonic_sum(climatology.wind[1], phase)
        mean_speed = np.maximum(harmonic_sum(climatology.wind_speed, phase), 2.0)
        # The scalar mean speed holds gusts that the mean vector lacks; what the made winds do not
        # bring of them stays.
        gusts = np.maximum(mean_speed**2 - mean_u**2 - mean_v**2 - 2 * self._variance, 1.0)
        speed = np.sqrt((mean_u + u) ** 2 + (mean_v + v) ** 2 + gusts)
        drag = np.float32(_AIR_DENSITY_DRAG)
        tau_x, tau_y = drag * speed * (mean_u + u), drag * speed * (mean_v + v)
        # Gusts come with the wind as well as against it, so the mean stress exceeds that of the
        # mean wind; to second order by this much.
        usual = drag * (mean_speed + self._variance / mean_speed)
        heat_anomaly = (
            -self._latent * (speed - mean_speed)
            + self._warm_wind * v
            + np.float32(18.0) * self._cloud.at(day)
        )
        return Forcing(
            tau_x=tau_x,
            tau_y=tau_y,
            tau_x_anomaly=tau_x - usual * mean_u,
            tau_y_anomaly=tau_y - usual * mean_v,
            heat=harmonic_sum(climatology.heat_flux, phase) + heat_anomaly,
            heat_anomaly=heat_anomaly,
            el_nino=el_nino,
        )
