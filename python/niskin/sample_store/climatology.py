"""The climatologies that ship with the package. What is in them: data/PROVENANCE.md."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib import resources

import numpy as np
import zarr
from numpy.typing import NDArray
from zarr.storage import ZipStore

__all__ = ["Climatology", "load"]

Values = NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Climatology:
    """Global fields on regular grids, filled under land and below the sea floor.

    Harmonics are the mean, then cosine and sine of the year's phase, then of twice the phase.
    """

    depth: Values  # (720, 1440), m, 0 on land
    temperature: Values  # (19, 180, 360), degC, annual mean
    salinity: Values  # (19, 180, 360), psu, annual mean
    temperature_season: Values  # (4, 9, 90, 180), degC, harmonics less the mean, upper levels
    heat_flux: Values  # (5, 90, 180), W m-2, downward, harmonics
    wind: Values  # (2, 5, 90, 180), m/s, eastward and northward, harmonics
    wind_speed: Values  # (5, 90, 180), m/s, harmonics
    wind_modes: Values  # (2, 16, 90, 180), m/s, patterns of monthly anomalies
    wind_mode_memory: Values  # (16,), autocorrelation of each mode from month to month


@cache
def load() -> Climatology:
    """Read the shipped file; about 20 MB in memory."""
    file = resources.files("niskin.sample_store") / "data" / "climatology.zarr.zip"
    with resources.as_file(file) as path, ZipStore(path, mode="r") as store:
        group = zarr.open_group(store, mode="r", zarr_format=2)

        def read(name: str) -> Values:
            array = group[name]
            assert isinstance(array, zarr.Array)
            scale = float(str(array.attrs["scale_factor"]))
            return np.asarray(array[...]).astype(np.float32) * np.float32(scale)

        return Climatology(
            depth=read("depth"),
            temperature=read("temperature"),
            salinity=read("salinity"),
            temperature_season=read("temperature_season"),
            heat_flux=read("heat_flux"),
            wind=read("wind"),
            wind_speed=read("wind_speed"),
            wind_modes=read("wind_modes"),
            wind_mode_memory=read("wind_mode_memory"),
        )
