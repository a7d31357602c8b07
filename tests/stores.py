"""Tiny OM4-shaped stores whose every value can be told from every other.

A field holds `code / 8` with one integer code per (variable, level, row, cell), land holds NaN,
and each channel has statistics of its own, so a plane that lands in the wrong place never compares
equal. Written with zarr-python, in Zarr format 2.
"""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numcodecs
import numcodecs.abc
import numpy as np
import xarray as xr
import zarr
from numpy.typing import NDArray

from niskin.canonical import CanonicalDataset
from niskin.om4 import open_om4

Layout = Literal["flat", "depth-names", "compact", "compact-time-first", "mixed"]
Codec = Literal["none", "lz4", "zstd", "blosc-lz4", "blosc-zstd", "zlib", "gzip"]
Statistics = Literal["flat", "compact", "netcdf", "netcdf-compact"]

DEPTHS_M = (
    2.5, 10.0, 22.5, 40.0, 65.0, 105.0, 165.0, 250.0, 375.0, 550.0,
    775.0, 1050.0, 1400.0, 1850.0, 2400.0, 3100.0, 4000.0, 5000.0, 6000.0,
)  # fmt: skip
DEPTH_VARIABLES = ("uo", "vo", "thetao", "so")
SURFACE_VARIABLES = ("zos", "tauuo", "tauvo", "hfds")


@dataclass(frozen=True, kw_only=True)
class TinyStore:
    """Where a tiny store lies, and everything that should be read from it."""

    data: Path
    means: Path
    stds: Path
    levels: int
    truth: Mapping[str, NDArray[np.float32]]  # channel -> (rows, ny, nx), land NaN
    masks: Mapping[str, NDArray[np.bool_]]  # channel -> (ny, nx), True is wet
    mean: Mapping[str, np.float32]
    std: Mapping[str, np.float32]
    lat: NDArray[np.float64]
    lon: NDArray[np.float64]

    @property
    def prognostic(self) -> tuple[str, ...]:
        """Every depth channel, variable by variable, then zos."""
        depth = [f"{v}_{k}" for v in DEPTH_VARIABLES for k in range(self.levels)]
        return (*depth, "zos")

    @property
    def boundary(self) -> tuple[str, ...]:
        """The channels of the set `tau_hfds`."""
        return ("tauuo", "tauvo", "hfds")

    def open(self, **options: Any) -> CanonicalDataset:
        """The store as a dataset; `options` replace the arguments of `open_om4`."""
        arguments: dict[str, Any] = {"prognostic": self.prognostic, "boundary": self.boundary}
        return open_om4(self.data, self.means, self.stds, **(arguments | options))

    def expected(self, rows: Sequence[int], channels: Sequence[str]) -> NDArray[np.float32]:
        """Raw values of `rows` (a list of store rows) and `channels`: (row, channel, ny, nx)."""
        return np.stack([self.truth[c][list(rows)] for c in channels], axis=1)


def tiny_store(
    path: Path,
    *,
    layout: Layout = "flat",
    rows: int = 12,
    ny: int = 4,
    nx: int = 6,
    levels: int = 3,
    codec: Codec | numcodecs.abc.Codec = "none",
    seed: int = 0,
    dtype: str = "<f4",
    order: Literal["C", "F"] = "C",
    separator: Literal[".", "/"] = ".",
    rows_per_chunk: int = 1,
    levels_per_chunk: int | None = None,
    cell_chunks: tuple[int, int] | None = None,
    fill_value: float | None = np.nan,
    mask: Literal["flat", "stacked", "stacked-time"] | None = None,
    statistics: Statistics | None = None,
    consolidated: bool = True,
    calendar: str = "julian",
    time_units: str = "days since 1958-01-01 00:00:00",
    times: Sequence[float] | None = None,
    shift: float = 0.0,
) -> TinyStore:
    """Writes `path`/OM4.zarr, OM4_means.zarr and OM4_stds.zarr (or .nc) and returns what they hold.

    `mixed` stores `thetao` and `so` compact and the currents flat. `times` are numbers in
    `time_units` (default: noon pentads); `shift` is added to every field value and mean;
    `levels_per_chunk` and `cell_chunks` (ny, nx) default to one chunk.
    """
    rng = np.random.default_rng(seed)
    path.mkdir(parents=True, exist_ok=True)
    compact = {"flat": (), "depth-names": (), "mixed": ("thetao", "so")}.get(
        layout, DEPTH_VARIABLES
    )
    wet = _wet(rng, levels, ny, nx)
    truth, masks = _truth(rows, ny, nx, levels, wet, shift)
    mean = {c: np.float32(rng.uniform(-3, 3) + shift) for c in truth}
    std = {c: np.float32(rng.uniform(0.5, 40)) for c in truth}

    root = zarr.open_group(path / "OM4.zarr", mode="w", zarr_format=2)
    cells = cell_chunks or (ny, nx)
    options: dict[str, Any] = {
        "codec": codec, "order": order, "separator": separator, "fill_value": fill_value
    }  # fmt: skip
    for variable in DEPTH_VARIABLES:
        stack = np.stack([truth[f"{variable}_{k}"] for k in range(levels)])
        if variable in compact:
            dims: tuple[str, ...] = ("lev", "time", "y", "x")
            chunks: tuple[int, ...] = (levels_per_chunk or levels, rows_per_chunk, *cells)
            if layout == "compact-time-first":
                stack = stack.swapaxes(0, 1)
                dims, chunks = ("time", "lev", "y", "x"), (chunks[1], chunks[0], *cells)
            write_array(root, variable, stack.astype(dtype), dims, chunks=chunks, **options)
            continue
        for k in range(levels):
            depth = str(DEPTHS_M[k]).replace(".", "_")
            name = f"{variable}_lev_{depth}" if layout == "depth-names" else f"{variable}_{k}"
            chunks = (rows_per_chunk, *cells)
            write_array(
                root, name, stack[k].astype(dtype), ("time", "y", "x"), chunks=chunks, **options
            )
    for variable in SURFACE_VARIABLES:
        write_array(
            root, variable, truth[variable].astype(dtype), ("time", "y", "x"),
            chunks=(rows_per_chunk, *cells), **options,
        )  # fmt: skip
    _write_masks(root, mask or ("stacked" if compact else "flat"), wet, rows)

    lat = np.linspace(-60.0, 60.0, ny)
    lon = (np.arange(nx) + 0.5) * 360.0 / nx
    write_array(root, "y", lat, ("y",), codec="blosc-lz4", fill_value=np.nan)
    write_array(root, "x", lon, ("x",), codec="blosc-lz4", fill_value=np.nan)
    if compact:
        write_array(root, "lev", np.array(DEPTHS_M[:levels]), ("lev",), codec="blosc-lz4")
    numbers = np.asarray(2.5 + 5.0 * np.arange(rows) if times is None else times)
    attributes = {"units": time_units, "calendar": calendar}
    write_array(root, "time", numbers, ("time",), codec="blosc-lz4", attributes=attributes)
    if consolidated:
        zarr.consolidate_metadata(path / "OM4.zarr", zarr_format=2)

    form = statistics or ("compact" if compact else "flat")
    written = [
        _write_statistics(path, kind, values, form, levels)
        for kind, values in (("means", mean), ("stds", std))
    ]
    return TinyStore(
        data=path / "OM4.zarr", means=written[0], stds=written[1], levels=levels,
        truth=truth, masks=masks, mean=mean, std=std, lat=lat, lon=lon,
    )  # fmt: skip


def copy_of(store: TinyStore, path: Path) -> TinyStore:
    """A copy to damage, much cheaper than writing another: the stores in the new folder `path`."""
    shutil.copytree(store.data.parent, path)
    places = {name: path / getattr(store, name).name for name in ("data", "means", "stds")}
    return dataclasses.replace(store, **places)


def compressor(codec: Codec | numcodecs.abc.Codec) -> Any:
    """The numcodecs codec of a name of `Codec`, None for "none"; a codec is itself."""
    if isinstance(codec, numcodecs.abc.Codec):
        return codec
    return {
        "none": None,
        "lz4": numcodecs.LZ4(),
        "zstd": numcodecs.Zstd(level=3),
        "blosc-lz4": numcodecs.Blosc("lz4", clevel=5, shuffle=1),
        "blosc-zstd": numcodecs.Blosc("zstd", clevel=5, shuffle=1),
        "zlib": numcodecs.Zlib(level=1),
        "gzip": numcodecs.GZip(level=1),
    }[codec]


def write_array(
    root: zarr.Group,
    name: str,
    values: NDArray[Any] | np.generic,
    dims: Sequence[str] | None,
    *,
    chunks: tuple[int, ...] | None = None,
    codec: Codec | numcodecs.abc.Codec = "none",
    order: Literal["C", "F"] = "C",
    separator: Literal[".", "/"] = ".",
    fill_value: float | None = None,
    attributes: Mapping[str, Any] | None = None,
) -> None:
    """Writes one format 2 array (replacing one of that name); no `dims`: no dimension names."""
    named = {} if dims is None else {"_ARRAY_DIMENSIONS": list(dims)}
    array = root.create_array(
        name,
        shape=values.shape,
        chunks=chunks or values.shape,
        dtype=values.dtype,
        compressors=compressor(codec),
        order=order,
        chunk_key_encoding={"name": "v2", "separator": separator},
        fill_value=fill_value,
        attributes=named | dict(attributes or {}),
        overwrite=True,
        config={"write_empty_chunks": True},
    )
    array[...] = values


def change_json(file: Path, **changes: Any) -> None:
    """Changes keys of a metadata file such as `thetao_0/.zarray`; a value of `...` removes the key.

    Only for stores written with `consolidated=False`: a consolidated one would not look at it.
    """
    content = json.loads(file.read_text()) | changes
    file.write_text(json.dumps({k: v for k, v in content.items() if v is not ...}))


def _wet(rng: np.random.Generator, levels: int, ny: int, nx: int) -> NDArray[np.bool_]:
    """(level, ny, nx): a sea floor of random depth, land at the first cell, deep at the last."""
    floor = rng.integers(0, levels + 2, (ny, nx))
    floor.flat[0], floor.flat[-1] = 0, levels
    return floor[None] > np.arange(levels)[:, None, None]


def _truth(
    rows: int, ny: int, nx: int, levels: int, wet: NDArray[np.bool_], shift: float
) -> tuple[dict[str, NDArray[np.float32]], dict[str, NDArray[np.bool_]]]:
    channels = [(f"{v}_{k}", k) for v in DEPTH_VARIABLES for k in range(levels)]
    channels += [(v, 0) for v in SURFACE_VARIABLES]
    size = rows * ny * nx
    if len(channels) * size >= 2**24:
        raise ValueError("too many values to code each one exactly in float32")
    truth, masks = {}, {}
    for number, (channel, level) in enumerate(channels):
        code = np.arange(number * size, (number + 1) * size).reshape(rows, ny, nx)
        values = (code / 8 + shift).astype(np.float32)
        truth[channel] = np.where(wet[level], values, np.float32(np.nan))
        masks[channel] = wet[level]
    return truth, masks


def _write_masks(root: zarr.Group, form: str, wet: NDArray[np.bool_], rows: int) -> None:
    values = wet.astype("i1")
    attributes = {"dtype": "bool"}
    if form == "flat":
        for k, level in enumerate(values):
            write_array(root, f"mask_{k}", level, ("y", "x"), attributes=attributes)
    elif form == "stacked":
        write_array(root, "wetmask", values, ("lev", "y", "x"), attributes=attributes)
    else:
        repeated = np.broadcast_to(values, (rows, *values.shape))
        write_array(root, "wetmask", repeated, ("time", "lev", "y", "x"), attributes=attributes)


def _write_statistics(
    path: Path, kind: str, values: Mapping[str, np.float32], form: Statistics, levels: int
) -> Path:
    variables: dict[str, tuple[tuple[str, ...], Any]]
    if form in ("flat", "netcdf"):
        variables = {name: ((), value) for name, value in values.items()}
    else:
        variables = {name: ((), values[name]) for name in SURFACE_VARIABLES}
        for name in DEPTH_VARIABLES:
            vector = np.array([values[f"{name}_{k}"] for k in range(levels)])
            variables[name] = (("lev",), vector)
    if form.startswith("netcdf"):
        target = path / f"OM4_{kind}.nc"
        xr.Dataset(variables).to_netcdf(target, engine="h5netcdf")
        return target
    target = path / f"OM4_{kind}.zarr"
    root = zarr.open_group(target, mode="w", zarr_format=2)
    for name, (dims, value) in variables.items():
        write_array(root, name, np.asarray(value), dims, fill_value=np.nan)
    zarr.consolidate_metadata(target, zarr_format=2)
    return target
