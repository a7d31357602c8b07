"""The stores on disk, written with zarr-python in Zarr format 2.

Only this file knows how an OM4 store looks: names, dimensions, chunks, compressors, attributes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import zarr
from numpy.typing import NDArray

from niskin.channels import DEPTHS_M, describe, split_level

from .currents import THICKNESS_M
from .grid import Grid, Plane
from .pentads import CALENDAR, days_since
from .request import Request

__all__ = ["StoreWriter", "write_statistics"]

# What zarr-python 2 gave every array that did not ask for something else.
_COORDINATE_CODEC = numcodecs.Blosc(cname="lz4", clevel=5, shuffle=numcodecs.Blosc.SHUFFLE)


def _codec(name: str) -> Any:
    blosc = {"clevel": 5, "shuffle": numcodecs.Blosc.SHUFFLE}
    return {
        "none": None,
        "lz4": numcodecs.Blosc(cname="lz4", **blosc),
        "zstd": numcodecs.Blosc(cname="zstd", **blosc),
        "plain-lz4": numcodecs.LZ4(),
        "plain-zstd": numcodecs.Zstd(level=3),
        "zlib": numcodecs.Zlib(level=1),
        "gzip": numcodecs.GZip(level=1),
    }[name]


def _write_whole(
    group: zarr.Group,
    name: str,
    values: NDArray[Any],
    dims: tuple[str, ...],
    attributes: Mapping[str, Any],
    fill_value: float | None = None,
) -> None:
    """An array in one chunk: a coordinate, a mask or a statistic."""
    array = group.create_array(
        name,
        shape=values.shape,
        chunks=values.shape,
        dtype=values.dtype,
        compressors=_COORDINATE_CODEC,
        fill_value=fill_value,
        attributes={"_ARRAY_DIMENSIONS": list(dims), **attributes},
    )
    array[...] = values


class StoreWriter:
    """One data store: made with everything but its fields, which then come in blocks of rows.

    `write` may be called from several threads, for different arrays or different chunks.
    """

    def __init__(
        self,
        path: Path,
        request: Request,
        grid: Grid,
        wet: NDArray[np.bool_],
        attributes: Mapping[str, Any],
    ) -> None:
        self._path = path
        self._request = request
        self._group = zarr.create_group(path, zarr_format=2, attributes=dict(attributes))
        self._write_coordinates(grid)
        self._write_masks(wet)
        self._arrays = {
            name: self._create(name, len(channels)) for name, channels in request.arrays.items()
        }

    def _create(self, name: str, levels: int) -> Any:
        request = self._request
        ny, nx = request.shape
        rows = (request.rows, min(request.rows_per_chunk, request.rows))
        sizes = {"time": rows, "lev": (levels, levels), "y": (ny, ny), "x": (nx, nx)}
        dims = self.dims(name)
        return self._group.create_array(
            name,
            shape=tuple(sizes[dim][0] for dim in dims),
            chunks=tuple(sizes[dim][1] for dim in dims),
            dtype="<f4",
            compressors=_codec(request.codec),
            fill_value=float("nan"),
            attributes={
                "_ARRAY_DIMENSIONS": list(dims),
                **describe(name, {}),
                "coordinates": "lat lon",
            },
        )

    def dims(self, array: str) -> tuple[str, ...]:
        """Names of the dimensions of an array of fields, in the order of the store."""
        layout = self._request.layout
        if layout == "flat" or split_level(self._request.arrays[array][0])[1] is None:
            return ("time", "y", "x")
        return ("lev", "time", "y", "x") if layout == "compact" else ("time", "lev", "y", "x")

    def write(self, array: str, first_row: int, block: Plane) -> None:
        """Write rows of an array; `block` has its dimensions. Start at the first row of a chunk."""
        axis = self.dims(array).index("time")
        rows = slice(first_row, first_row + block.shape[axis])
        self._arrays[array][(slice(None),) * axis + (rows,)] = block

    def finish(self) -> None:
        """Consolidate the metadata."""
        zarr.consolidate_metadata(str(self._path), zarr_format=2)

    def _write_coordinates(self, grid: Grid) -> None:
        request, group = self._request, self._group
        days, units = days_since(request.start_year, request.rows)
        time = {"units": units, "calendar": CALENDAR, "axis": "T", "long_name": "time"}
        _write_whole(group, "time", days, ("time",), time)
        north = {"units": "degrees_north", "long_name": "latitude"}
        east = {"units": "degrees_east", "long_name": "longitude"}
        _write_whole(group, "y", grid.lat, ("y",), {**north, "axis": "Y"}, np.nan)
        _write_whole(group, "x", grid.lon, ("x",), {**east, "axis": "X"}, np.nan)
        lat, lon = np.meshgrid(grid.lat, grid.lon, indexing="ij")
        _write_whole(group, "lat", lat, ("y", "x"), north, np.nan)
        _write_whole(group, "lon", lon, ("y", "x"), east, np.nan)
        depth = {"units": "m", "positive": "down", "axis": "Z", "long_name": "depth"}
        levels = np.array(DEPTHS_M[: request.levels])
        _write_whole(group, "lev", levels, ("lev",), depth, np.nan)
        thickness = {"units": "m", "long_name": "thickness of the level"}
        _write_whole(group, "dz", THICKNESS_M[: request.levels], ("lev",), thickness, np.nan)

    def _write_masks(self, wet: NDArray[np.bool_]) -> None:
        attributes = {"dtype": "bool", "long_name": "ocean", "coordinates": "lat lon"}
        masks = wet[: self._request.levels].astype(np.int8)
        if self._request.layout == "flat":
            for level, mask in enumerate(masks):
                _write_whole(self._group, f"mask_{level}", mask, ("y", "x"), attributes)
        else:
            _write_whole(self._group, "wetmask", masks, ("lev", "y", "x"), attributes)


def write_statistics(
    path: Path, request: Request, values: Mapping[str, float], attributes: Mapping[str, Any]
) -> None:
    """A store of one float32 number per channel: 0-d arrays, or vectors over `lev` if compact."""
    group = zarr.create_group(path, zarr_format=2, attributes=dict(attributes))
    for name, channels in request.arrays.items():
        numbers = np.array([values[channel] for channel in channels], dtype=np.float32)
        depth = request.layout != "flat" and split_level(channels[0])[1] is not None
        dims = ("lev",) if depth else ()
        _write_whole(
            group, name, numbers if depth else numbers.reshape(()), dims, describe(name, {}), np.nan
        )
    if request.layout != "flat":
        levels = np.array(DEPTHS_M[: request.levels])
        _write_whole(group, "lev", levels, ("lev",), {"units": "m", "positive": "down"}, np.nan)
    zarr.consolidate_metadata(str(path), zarr_format=2)
