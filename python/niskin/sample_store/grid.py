"""Grids of the sample store: Gaussian latitudes, interpolation, the sea floor.

Pure NumPy values; nothing here reads a file. Latitudes run northward and longitudes eastward from
zero, both in degrees.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

__all__ = ["RESOLUTIONS", "Grid", "cubic_taps", "overlap_matrix", "regular_axes"]

Plane = NDArray[np.float32]
Axis = NDArray[np.float64]
Taps = tuple[tuple[NDArray[np.int64], Plane], ...]

EARTH_RADIUS_M = 6.371e6
ROTATION_PER_S = 7.292e-5

# name → number of latitudes and longitudes
RESOLUTIONS: dict[str, tuple[int, int]] = {
    "2deg": (90, 180),
    "1deg": (180, 360),
    "0.5deg": (360, 720),
    "0.25deg": (720, 1440),
}


def regular_axes(ny: int, nx: int) -> tuple[Axis, Axis]:
    """Cell centres of a regular grid over the globe: (ny,) latitudes and (nx,) longitudes."""
    lat = -90.0 + (np.arange(ny) + 0.5) * (180.0 / ny)
    lon = (np.arange(nx) + 0.5) * (360.0 / nx)
    return lat.astype(np.float64), lon.astype(np.float64)


def cubic_taps(source: Axis, target: Axis, *, periodic: bool) -> Taps:
    """Four source positions and weights for every target of Catmull-Rom interpolation.

    Smooth to the first derivative, so that gradients of the result show no steps. The source is
    evenly spaced; beyond its ends a periodic axis (of 360 degrees) wraps and any other repeats its
    last value.
    """
    n = len(source)
    position = (target - source[0]) / (source[1] - source[0])
    left = np.floor(position).astype(np.int64)
    t = position - left
    weights = (
        ((2.0 - t) * t - 1.0) * t / 2.0,
        ((3.0 * t - 5.0) * t * t + 2.0) / 2.0,
        ((4.0 - 3.0 * t) * t + 1.0) * t / 2.0,
        (t - 1.0) * t * t / 2.0,
    )
    taps = []
    for shift, weight in zip((-1, 0, 1, 2), weights, strict=True):
        index = (left + shift) % n if periodic else np.clip(left + shift, 0, n - 1)
        taps.append((index, weight.astype(np.float32)))
    return tuple(taps)


def overlap_matrix(source_edges: Axis, target_edges: Axis) -> Axis:
    """Matrix (target, source): which share of each target cell each source cell covers."""
    low = np.maximum(source_edges[None, :-1], target_edges[:-1, None])
    high = np.minimum(source_edges[None, 1:], target_edges[1:, None])
    overlap = np.clip(high - low, 0.0, None)
    result: Axis = overlap / overlap.sum(axis=1, keepdims=True)
    return result


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A global grid: its axes in degrees and the operators that depend on them alone."""

    lat: Axis  # (ny,), from south to north
    lon: Axis  # (nx,), from 0 eastward

    @classmethod
    def gaussian(cls, ny: int, nx: int) -> Grid:
        """Latitudes at the roots of the Legendre polynomial of order ny."""
        roots, _ = np.polynomial.legendre.leggauss(ny)
        return cls(lat=np.rad2deg(np.arcsin(roots)), lon=regular_axes(ny, nx)[1])

    @classmethod
    def regular(cls, ny: int, nx: int) -> Grid:
        """Cells of equal height in degrees."""
        lat, lon = regular_axes(ny, nx)
        return cls(lat=lat, lon=lon)

    @property
    def shape(self) -> tuple[int, int]:
        """(ny, nx)."""
        return len(self.lat), len(self.lon)

    @cached_property
    def lat_edges(self) -> Axis:
        """(ny + 1,) cell edges in degrees."""
        middle = (self.lat[1:] + self.lat[:-1]) / 2
        return np.concatenate([[-90.0], middle, [90.0]])

    @cached_property
    def coriolis(self) -> Plane:
        """(ny, 1) Coriolis parameter, s-1."""
        column = 2 * ROTATION_PER_S * np.sin(np.deg2rad(self.lat))
        return column[:, None].astype(np.float32)

    def eastward(self, values: Plane) -> Plane:
        """Derivative of (ny, nx) values towards the east, per metre; centred, periodic."""
        step = 2 * np.deg2rad(360.0 / len(self.lon)) * EARTH_RADIUS_M
        # Cells shrink to nothing at the poles; below 10 km a derivative is all rounding.
        length = np.maximum(step * np.cos(np.deg2rad(self.lat)), 2e4)[:, None]
        result = np.roll(values, -1, axis=1) - np.roll(values, 1, axis=1)
        result *= (1.0 / length).astype(np.float32)
        return result

    def northward(self, values: Plane) -> Plane:
        """Derivative of (ny, nx) values towards the north, per metre; one-sided at the poles."""
        y = np.deg2rad(self.lat) * EARTH_RADIUS_M
        result = np.empty_like(values)
        result[1:-1] = values[2:] - values[:-2]
        result[0] = values[1] - values[0]
        result[-1] = values[-1] - values[-2]
        gap = np.concatenate([y[1:2] - y[:1], y[2:] - y[:-2], y[-1:] - y[-2:-1]])
        result *= (1.0 / gap)[:, None].astype(np.float32)
        return result

    def from_regular(self, values: NDArray[np.floating]) -> Plane:
        """Interpolate (..., m, n) of a regular global grid to (..., ny, nx)."""
        by_lat, by_lon = self._taps_from(values.shape[-2], values.shape[-1])
        values = values.astype(np.float32, copy=False)
        # Element by element rather than as a matrix product: the order of its sums, and so the
        # last bits, would depend on the machine's number of threads.
        wide = sum(np.take(values, index, axis=-1) * weight for index, weight in by_lon)
        result: Plane = sum(  # type: ignore[assignment]
            np.take(wide, index, axis=-2) * weight[:, None] for index, weight in by_lat
        )
        return result

    def _taps_from(self, m: int, n: int) -> tuple[Taps, Taps]:
        if (m, n) not in self._taps:
            lat, lon = regular_axes(m, n)
            self._taps[m, n] = (
                cubic_taps(lat, self.lat, periodic=False),
                cubic_taps(lon, self.lon, periodic=True),
            )
        return self._taps[m, n]

    @cached_property
    def _taps(self) -> dict[tuple[int, int], tuple[Taps, Taps]]:
        return {}

    def sea_floor(self, depth: NDArray[np.floating]) -> Plane:
        """Depth of the sea (ny, nx) in metres, 0 on land, from (m, n) depths of a finer grid,
        whose columns divide evenly into those of this one.

        A cell is sea where at least half of it is; its depth is the mean over that part.
        """
        m, n = depth.shape
        by_lat = overlap_matrix(np.linspace(-90.0, 90.0, m + 1), self.lat_edges)
        nx = len(self.lon)
        columns = depth.reshape(m, nx, n // nx).astype(np.float64)
        share = by_lat @ (columns > 0).mean(axis=-1)
        mean = by_lat @ columns.mean(axis=-1) / np.maximum(share, 1e-9)
        # Half a cell must not hang on the rounding of a sum.
        sea = share >= 0.5 - 1e-6
        return np.where(sea, mean, 0.0).astype(np.float32)
