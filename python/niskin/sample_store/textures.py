"""Smooth random fields that drift, grow and fade: eddies, weather systems, cloud.

A field is the sum of a few generations. Each takes one texture of a small bank, turned round the
globe and signed at random, drifts along latitude circles at its own speed for every latitude, and
lives for a fixed time under a sine window. So drift never winds a field up, and a row's value needs
no history.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .grid import Grid, Plane

__all__ = ["DriftingTextures"]

_ALIVE = 3  # generations that overlap; the squares of their windows then sum to a constant


def _bank(grid: Grid, rng: np.random.Generator, count: int, radius_deg: float) -> Plane:
    """(count, ny, nx) of zero mean and unit variance, isotropic, without scales far above radius.

    The band-pass is the difference of two Gaussian filters, of radius and of twice the radius.
    """
    ny, nx = grid.shape
    noise = rng.standard_normal((count, ny, nx), dtype=np.float32)
    spectrum = np.fft.rfft(noise, axis=-1)
    wavenumber = np.arange(spectrum.shape[-1])
    cosine = np.maximum(np.cos(np.deg2rad(grid.lat)), 0.02)[:, None]
    distance = np.subtract.outer(grid.lat, grid.lat)
    fields = []
    for radius in (radius_deg, 2 * radius_deg):
        zonal = np.exp(-0.5 * (wavenumber * np.deg2rad(radius) / cosine) ** 2)
        meridional = np.exp(-0.5 * (distance / radius) ** 2)
        meridional /= np.sqrt((meridional**2).sum(axis=1, keepdims=True))
        filtered = np.fft.irfft(spectrum * zonal, n=nx, axis=-1)
        field = np.matmul(meridional, filtered)
        field /= np.sqrt((field**2).mean(axis=(0, 2), keepdims=True)) + 1e-9
        fields.append(field)
    band = fields[0] - 0.7 * fields[1]
    band -= band.mean(axis=-1, keepdims=True)
    band /= np.sqrt((band**2).mean(axis=(0, 2), keepdims=True)) + 1e-9
    # Rows near the poles hold less than one texture round the globe and are damped, not stretched.
    damping = np.clip(np.cos(np.deg2rad(grid.lat)) * 360 / (8 * radius_deg), 0, 1)[:, None]
    result: Plane = (band * damping).astype(np.float32)
    return result


class DriftingTextures:
    """A random field of unit variance as a function of the day.

    `speed` is the drift towards the east in degrees of longitude per day, for each latitude.
    """

    def __init__(
        self,
        grid: Grid,
        *,
        seed: tuple[int, ...],
        radius_deg: float,
        lifetime_days: float,
        speed: NDArray[np.float64],
        count: int = 6,
    ) -> None:
        self._seed = seed
        bank = _bank(grid, np.random.default_rng([*seed, 0]), count, radius_deg)
        # Twice round the globe and a cell more, so that a drifted row is one stretch of memory.
        self._bank = np.concatenate([bank, bank, bank[..., :1]], axis=-1)
        self._lifetime = lifetime_days
        self._speed = speed / 360.0 * len(grid.lon)  # cells per day
        self._shape = grid.shape
        ny, nx = grid.shape
        self._columns = np.arange(nx, dtype=np.int64)
        self._row_starts = np.arange(ny, dtype=np.int64) * (2 * nx + 1)

    def at(self, day: float) -> Plane:
        """(ny, nx) at `day`, counted from any origin; a new array."""
        spacing = self._lifetime / _ALIVE
        newest = int(np.floor(day / spacing))
        result = np.zeros(self._shape, dtype=np.float32)
        for generation in range(newest - _ALIVE + 1, newest + 1):
            # The sequence of a generation must not depend on which row asks for it first.
            rng = np.random.default_rng([*self._seed, 1, generation + 1_000_000])
            texture = self._bank[rng.integers(len(self._bank))]
            start = rng.integers(self._shape[1])
            sign = 1.0 if rng.random() < 0.5 else -1.0
            age = day - generation * spacing
            window = np.sqrt(2 / _ALIVE) * np.sin(np.pi * age / self._lifetime)
            shift = start - self._speed * (age - self._lifetime / 2)
            result += self._drifted(texture, shift, sign * window)
        return result

    def _drifted(self, texture: Plane, shift: NDArray[np.float64], weight: float) -> Plane:
        """`texture` times `weight`, read `shift` cells to the east in each row; linear between."""
        whole = np.floor(shift).astype(np.int64)
        part = (shift - whole)[:, None]
        first = self._row_starts + whole % self._shape[1]
        index = first[:, None] + self._columns
        values = texture.take(index, mode="clip")
        values *= (weight * (1 - part)).astype(np.float32)
        index += 1
        following = texture.take(index, mode="clip")
        following *= (weight * part).astype(np.float32)
        values += following
        return values
