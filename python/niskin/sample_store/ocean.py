"""Every channel of the store as a recipe over a few fields per row.

A plane is a real mean plus a real season plus made anomalies: so-many times a field of the row
(the mixed layer's temperature, the wind's drift, sea level with its eddies, …), weighted by depth
or by a map. A row's fields are computed once and serve all its channels. Land is NaN in the mean,
so it is NaN in the sum.

Values depend on the grid, the seed, the row and the channel alone: not on which channels, how many
rows or what layout is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from niskin.channels import split_level

from .climatology import Climatology
from .currents import LEVELS_M, THICKNESS_M, geostrophic, sea_level, sea_level_season, wind_driven
from .grid import Grid, Plane
from .pentads import year_phase
from .slow_ocean import COARSE, State
from .textures import DriftingTextures

__all__ = ["Ocean", "Recipe", "RowFields"]

_NOISE_OFFSETS = 65521
# What a metre of sea level does to the thermocline below it.
_THERMOCLINE_PER_SEA_LEVEL = 250.0
_NOISE = {
    "thetao": 0.015,
    "so": 0.005,
    "uo": 0.003,
    "vo": 0.003,
    "zos": 0.002,
    "tauuo": 0.0015,
    "tauvo": 0.0015,
    "hfds": 1.0,
}
_KINDS = tuple(_NOISE)


@dataclass(frozen=True, kw_only=True)
class RowFields:
    """The fields of one row, each (ny, nx) float32, by name; and the row's place in the year."""

    row: int
    waves: tuple[np.float32, np.float32, np.float32, np.float32]
    planes: dict[str, Plane]


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How a channel follows from the fields of a row; planes are (ny, nx) float32."""

    number: int  # of the channel, moves the noise
    mean: Plane  # NaN on land
    season: tuple[Plane, ...] = ()  # harmonics, as many as are worth it
    scaled: tuple[tuple[float, str], ...] = ()  # (weight, row field)
    mapped: tuple[tuple[Plane, str], ...] = ()  # (map of weights, row field)
    floor: float | None = None
    noise: float = 0.0


def _smooth(values: Plane, passes: int) -> Plane:
    """Binomial smoothing over both axes, periodic in longitude."""
    half, quarter = np.float32(0.5), np.float32(0.25)
    for _ in range(passes):
        beside = np.roll(values, 1, 1) + np.roll(values, -1, 1)
        values = half * values + quarter * beside
        padded = np.concatenate([values[:1], values, values[-1:]])
        values = half * values + quarter * (padded[2:] + padded[:-2])
    return values


class Ocean:
    """The recipes of one grid, and the fields of any row. Safe to share between threads."""

    def __init__(self, grid: Grid, climatology: Climatology, seed: int) -> None:
        self.grid = grid
        self._climatology = climatology
        self._coarse = Grid.regular(*COARSE)
        self.depth = grid.sea_floor(climatology.depth)
        # A level holds water where the floor lies below the level's upper edge.
        edges = np.concatenate([[0.0], np.cumsum(THICKNESS_M)])[:-1]
        self.wet: NDArray[np.bool_] = self.depth[None] > edges[:, None, None]
        spacing = 180.0 / grid.shape[0]
        # Long waves set the drift of eddies: swift in the tropics, nothing near the poles.
        f = np.maximum(np.abs(grid.coriolis[:, 0].astype(np.float64)), 2.5e-5)
        metres = -np.minimum(2.3e-11 * np.cos(np.deg2rad(grid.lat)) * 5.0 / f**2, 0.3) - 0.01
        degrees = metres * 86400 / 1.11e5 / np.maximum(np.cos(np.deg2rad(grid.lat)), 0.2)
        self._eddies = DriftingTextures(
            grid,
            seed=(seed, 200, grid.shape[0]),
            radius_deg=max(0.8, 1.3 * spacing),
            lifetime_days=150.0,
            speed=degrees,
        )
        rng = np.random.default_rng([seed, 201, grid.shape[0]])
        ny, nx = grid.shape
        self._noise: Plane = rng.standard_normal(ny * nx + _NOISE_OFFSETS, dtype=np.float32)

    @cached_property
    def _heights(self) -> Plane:
        return sea_level(self.grid, self._climatology)

    @cached_property
    def _height_season(self) -> Plane:
        return sea_level_season(self._climatology, self._coarse)

    @cached_property
    def _eddy_height(self) -> Plane:
        """Amplitude of eddies, metres of sea level: large where mean sea level is steep."""
        coarse = self._coarse
        east, north = geostrophic(coarse, sea_level(coarse, self._climatology)[0])
        near_equator = np.clip(np.abs(coarse.lat) / 16.0, 0.05, 1.0)[:, None].astype(np.float32)
        spread = _smooth(np.minimum(np.hypot(east, north), 0.4) * near_equator, 5)
        deep = (coarse.sea_floor(self._climatology.depth) > 200).astype(np.float32)
        coast = np.clip(_smooth(deep, 1) * 2 - 1, 0, 1)
        height = np.minimum((0.015 + 1.6 * spread) * near_equator, 0.25) * coast
        return np.maximum(self.grid.from_regular(height), 0)

    def row_fields(self, row: int, day: float, state: State) -> RowFields:
        """The fields that the recipes use, at the row that is `day` days after the first."""
        grid = self.grid
        phase = year_phase(row)
        tau_x, tau_y = grid.from_regular(state.tau_x), grid.from_regular(state.tau_y)
        height = self._eddies.at(day)
        height *= self._eddy_height
        height += grid.from_regular(state.height)
        eddy_u, eddy_v = geostrophic(grid, height)
        drift_u, drift_v = wind_driven(grid, tau_x, tau_y)
        return RowFields(
            row=row,
            waves=(
                np.float32(np.cos(phase)),
                np.float32(np.sin(phase)),
                np.float32(np.cos(2 * phase)),
                np.float32(np.sin(2 * phase)),
            ),
            planes={
                "tau_x": tau_x,
                "tau_y": tau_y,
                "heat": grid.from_regular(state.heat),
                "temperature": grid.from_regular(state.temperature),
                "salinity": grid.from_regular(state.salinity),
                "height": height,
                "eddy_u": eddy_u,
                "eddy_v": eddy_v,
                "drift_u": drift_u,
                "drift_v": drift_v,
            },
        )

    def recipe(self, channel: str) -> Recipe:
        """The recipe of a channel of the store, such as "thetao_3" or "hfds"."""
        base, level = split_level(channel)
        number = _KINDS.index(base) * 19 + (level or 0)
        noise = _NOISE[base]
        if level is None:
            return self._surface(base, number, noise)
        if base in ("thetao", "so"):
            return self._tracer(base, level, number, noise)
        return self._current(base, level, number, noise)

    def _on_sea(self, values: NDArray[np.floating], level: int) -> Plane:
        return np.where(self.wet[level], values, np.nan).astype(np.float32)

    def _tracer(self, base: str, level: int, number: int, noise: float) -> Recipe:
        warm = base == "thetao"
        values = self._climatology.temperature if warm else self._climatology.salinity
        season: tuple[Plane, ...] = ()
        if warm and level < self._climatology.temperature_season.shape[1]:
            season = tuple(self.grid.from_regular(self._climatology.temperature_season[:, level]))
        above, below = max(level - 1, 0), min(level + 1, 18)
        slope = (values[above] - values[below]) / (LEVELS_M[below] - LEVELS_M[above])
        limit = 0.08 if warm else 0.01
        depth = LEVELS_M[level]
        displacement = _THERMOCLINE_PER_SEA_LEVEL * (0.3 + 0.7 * (1 - np.exp(-depth / 60)))
        displacement *= np.exp(-depth / 1200)
        carried = self.grid.from_regular(np.clip(slope, -limit, limit) * displacement)
        if level < 5:  # a surface eddy also carries the water of the other side of a front
            carried = carried + np.float32((4.0 if warm else 0.4) * np.exp(-depth / 80))
        mixed = float(np.exp(-((depth / 90.0) ** 1.5)))
        scaled = ((mixed, "temperature" if warm else "salinity"),) if mixed > 0.01 else ()
        return Recipe(
            number=number,
            mean=self._on_sea(self.grid.from_regular(values[level]), level),
            season=season,
            scaled=scaled,
            mapped=((carried, "height"),),
            floor=-1.9 if warm and level < 9 else None,
            noise=noise * float(0.35 + 0.65 * np.exp(-depth / 1000)),
        )

    def _current(self, base: str, level: int, number: int, noise: float) -> Recipe:
        component = 0 if base == "uo" else 1
        depth = LEVELS_M[level]
        mean = geostrophic(self.grid, self._heights[level])[component]
        season: tuple[Plane, ...] = ()
        if level < 6:
            yearly = [self.grid.from_regular(part) for part in self._height_season[:2, level]]
            season = tuple(geostrophic(self.grid, part)[component] for part in yearly)
        drift = float(np.exp(-depth / 35.0) / 30.0)  # the integral over depth is about one
        eddy = float(0.15 + 0.85 * np.exp(-depth / 700.0))
        scaled = [(eddy, "eddy_u" if component == 0 else "eddy_v")]
        if depth < 200:
            scaled.append((drift, "drift_u" if component == 0 else "drift_v"))
        return Recipe(
            number=number,
            mean=self._on_sea(np.clip(mean, -1.5, 1.5), level),
            season=season,
            scaled=tuple(scaled),
            noise=noise * eddy,
        )

    def _surface(self, base: str, number: int, noise: float) -> Recipe:
        ny, nx = self.grid.shape
        if base == "zos":
            level = self._heights[0]
            weight = np.cos(np.deg2rad(self.grid.lat))[:, None] * self.wet[0]
            mean = level - np.float32((level * weight).sum() / weight.sum())
            season = tuple(self.grid.from_regular(part) for part in self._height_season[:, 0])
            # 50 m of water, 0.2 kg m-3 K-1.
            scaled = ((1.0, "height"), (0.01, "temperature"))
            return Recipe(
                number=number,
                mean=self._on_sea(mean, 0),
                season=season,
                scaled=scaled,
                noise=noise,
            )
        field = {"tauuo": "tau_x", "tauvo": "tau_y", "hfds": "heat"}[base]
        zero = self._on_sea(np.zeros((ny, nx), dtype=np.float32), 0)
        return Recipe(number=number, mean=zero, scaled=((1.0, field),), noise=noise)

    def fill(self, recipe: Recipe, fields: RowFields, out: Plane, scratch: Plane) -> None:
        """Write the plane (ny, nx) of a channel at a row into `out`; `scratch` is as large."""
        offset = (recipe.number * 7919 + fields.row * 10007) % _NOISE_OFFSETS
        noise = self._noise[offset : offset + out.size].reshape(out.shape)
        np.multiply(noise, np.float32(recipe.noise), out=out)
        out += recipe.mean
        for harmonic, wave in zip(recipe.season, fields.waves, strict=False):
            np.multiply(harmonic, wave, out=scratch)
            out += scratch
        for weight, name in recipe.scaled:
            np.multiply(fields.planes[name], np.float32(weight), out=scratch)
            out += scratch
        for weights, name in recipe.mapped:
            np.multiply(fields.planes[name], weights, out=scratch)
            out += scratch
        if recipe.floor is not None:
            np.maximum(out, np.float32(recipe.floor), out=out)
