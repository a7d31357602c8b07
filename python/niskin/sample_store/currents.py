"""Sea level and currents that follow from density and wind.

One linear balance serves everywhere: Coriolis force, pressure gradient or wind stress, and a drag
that takes over from the Coriolis force within four degrees of the equator. Away from there it is
geostrophy and Ekman's drift.
"""

from __future__ import annotations

import numpy as np

from niskin.channels import DEPTHS_M

from .climatology import Climatology
from .grid import Grid, Plane

__all__ = [
    "LEVELS_M",
    "THICKNESS_M",
    "WATER_DENSITY",
    "geostrophic",
    "sea_level",
    "sea_level_season",
    "wind_driven",
]

# The 19 levels: depth of the centre and thickness, metres.
LEVELS_M = np.array(DEPTHS_M)
THICKNESS_M = np.array(
    [5, 10, 15, 20, 30, 50, 70, 100, 150, 200, 250, 300, 400, 500, 600, 800, 1000, 1000, 1000],
    dtype=np.float64,
)

GRAVITY = 9.81
WATER_DENSITY = 1025.0
STILL_LEVEL = 14  # the level of no motion, 2400 m
# The analysis is smooth over 700 km, so its fronts are too gentle.
_STEEPNESS = np.float32(1.3)
_HIGHEST = np.float32(1.4)  # metres
_DRAG = 9e-6  # s-1, a day and a third


def _expansion(temperature: Plane) -> Plane:
    """Density that a degree takes away, kg m-3 K-1: 0.06 in ice water, 0.3 in the tropics."""
    return np.float32(0.058) + np.float32(0.0104) * np.clip(temperature, -2, 32)


def _density(temperature: Plane, salinity: Plane) -> Plane:
    """Density less a constant, kg m-3."""
    heavier = np.float32(0.78) * (salinity - 35)
    return heavier - (np.float32(0.058) + np.float32(0.0052) * temperature) * temperature


def sea_level(grid: Grid, climatology: Climatology) -> Plane:
    """(19, ny, nx) mean height of pressure in metres of water, relative to the level of no motion.

    Level 0 is the mean sea level that the density asks for, less its global mean.
    """
    height = np.zeros(climatology.temperature.shape, dtype=np.float32)
    density = _density(climatology.temperature, climatology.salinity)
    for level in range(STILL_LEVEL - 1, -1, -1):
        gap = (THICKNESS_M[level] + THICKNESS_M[level + 1]) / 2
        middle = (density[level] + density[level + 1]) / 2
        reference = float(middle.mean())
        height[level] = height[level + 1] - (middle - reference) * np.float32(gap / WATER_DENSITY)
    # Enclosed seas such as the Mediterranean have water of their own, metres off the ocean's level.
    height -= height.mean(axis=(1, 2), keepdims=True)
    height *= _STEEPNESS
    return grid.from_regular(_HIGHEST * np.tanh(height / _HIGHEST))


def sea_level_season(climatology: Climatology, coarse: Grid) -> Plane:
    """(4, 9, 90, 180) harmonics of the same, from the season of temperature."""
    season = climatology.temperature_season
    levels = season.shape[1]
    mean = coarse.from_regular(climatology.temperature[:levels])
    lightness = season * _expansion(mean)
    height = np.zeros_like(season)
    for level in range(levels - 2, -1, -1):
        gap = (THICKNESS_M[level] + THICKNESS_M[level + 1]) / 2
        middle = (lightness[:, level] + lightness[:, level + 1]) / 2
        height[:, level] = height[:, level + 1] + middle * np.float32(gap / WATER_DENSITY)
    return height


def _balance(grid: Grid, east: Plane, north: Plane) -> tuple[Plane, Plane]:
    """Velocity under a force per mass, m s-2."""
    f = grid.coriolis
    weight = 1.0 / (np.float32(_DRAG**2) + f * f)
    drag = np.float32(_DRAG)
    return (drag * east + f * north) * weight, (drag * north - f * east) * weight


def geostrophic(grid: Grid, height: Plane) -> tuple[Plane, Plane]:
    """Eastward and northward velocity (ny, nx), m/s, under a height of pressure in metres."""
    gravity = np.float32(-GRAVITY)
    return _balance(grid, gravity * grid.eastward(height), gravity * grid.northward(height))


def wind_driven(grid: Grid, tau_x: Plane, tau_y: Plane) -> tuple[Plane, Plane]:
    """Transport (ny, nx) in m2/s that a stress in N m-2 drives in the upper ocean."""
    scale = np.float32(1.0 / WATER_DENSITY)
    return _balance(grid, tau_x * scale, tau_y * scale)
