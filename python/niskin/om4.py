"""The rules of OM4 stores: from the arrays on disk to canonical channels.

Opening reads metadata, coordinates, masks and statistics; the fields stay on disk.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import get_args

import numpy as np
from numpy.typing import NDArray

from niskin.canonical import CanonicalDataset
from niskin.channels import describe, resolve_channels
from niskin.content import BadValuesPolicy, Content
from niskin.errors import FormatError, UsageError, address
from niskin.field_reader import Field, MissingChunks, XarrayReader
from niskin.layout import ChannelLocation, Layout, missing_names
from niskin.masks import read_masks
from niskin.raw_store import local_path, open_raw_store
from niskin.statistics import check_statistics, read_statistics
from niskin.time_axis import decode_time

__all__ = ["OM4Recipe", "open_om4"]

Location = str | os.PathLike[str]


def open_om4(
    data: Location,
    means: Location,
    stds: Location,
    *,
    prognostic: str | Sequence[str] = "thermo_dynamic_all",
    boundary: str | Sequence[str] = "tau_hfds",
    missing_chunks: MissingChunks = "error",
    bad_values: BadValuesPolicy = "warn",
) -> CanonicalDataset:
    """Opens an OM4-shaped store with its statistics as a dataset of canonical channels.

    `data` is a Zarr store of format 2, flat or compact; `means` and `stds` are Zarr stores or
    NetCDF files (`.nc`). `prognostic` and `boundary` are each the key of a published set or a list
    of channel names. `missing_chunks` ("error", "warn", "fill") says what an absent chunk with a
    wet cell is, `bad_values` ("error", "warn", "ignore") what NaN or an infinity in a wet cell is.

    Raises StoreError for a store that is not there, FormatError for one that does not hold what is
    asked, UsageError for arguments that make no sense, and DecodeError for damaged coordinates,
    masks or statistics.
    """
    for option, value, choices in (
        ("missing_chunks", missing_chunks, get_args(MissingChunks)),
        ("bad_values", bad_values, get_args(BadValuesPolicy)),
    ):
        if value not in choices:
            raise UsageError(f"open_om4: {option}: got {value!r}, expected {' | '.join(choices)}")
    recipe = OM4Recipe(
        data=local_path(data),
        means=local_path(means),
        stds=local_path(stds),
        prognostic=resolve_channels("prognostic", prognostic),
        boundary=resolve_channels("boundary", boundary),
        missing_chunks=missing_chunks,
        bad_values=bad_values,
    )
    if Path(recipe.means).resolve() == Path(recipe.stds).resolve():
        raise UsageError(
            address(
                "means and stds: got one store for both, expected two",
                store=recipe.means,
                hint="give the store of standard deviations as the third argument",
            )
        )
    return CanonicalDataset(recipe, content=recipe.open())


@dataclass(frozen=True, kw_only=True)
class OM4Recipe:
    """The arguments of `open_om4`, checked: absolute paths, channel names and policies."""

    data: str
    means: str
    stds: str
    prognostic: tuple[str, ...]
    boundary: tuple[str, ...]
    missing_chunks: MissingChunks
    bad_values: BadValuesPolicy

    def open(self) -> Content:
        """Reads metadata, coordinates, masks and statistics; see `open_om4` for the errors."""
        layouts = {
            kind: Layout(open_raw_store(path))
            for kind, path in (("data", self.data), ("means", self.means), ("stds", self.stds))
        }
        channels = tuple(dict.fromkeys((*self.prognostic, *self.boundary)))
        located = _locate(layouts, channels)
        layout, locations = layouts["data"], located["data"]
        fields = _fields(layout, locations)
        time, lat, lon = _coordinates(layout, fields)
        masks = read_masks(layout, locations, (lat.size, lon.size))
        depths = {c: layout.depth(location) for c, location in locations.items()}
        means, stds = (
            read_statistics(layouts[kind], located[kind], depths, kind=kind)
            for kind in ("means", "stds")
        )
        check_statistics(means, stds, masks, means_store=self.means, stds_store=self.stds)
        return Content(
            name=Path(self.data).name,
            store_path=self.data,
            prognostic=self.prognostic,
            boundary=self.boundary,
            time=time,
            lat=lat,
            lon=lon,
            masks=masks,
            means=means,
            stds=stds,
            metadata=_metadata(fields, locations),
            locations=MappingProxyType(locations),
            sentinels=MappingProxyType({name: f.sentinels for name, f in fields.items()}),
            reader=XarrayReader(
                channels=channels,
                fields=fields,
                locations=locations,
                masks=masks,
                missing_chunks=self.missing_chunks,
            ),
        )


def _locate(
    layouts: Mapping[str, Layout], channels: Sequence[str]
) -> dict[str, dict[str, ChannelLocation]]:
    """Every channel in every store; FormatError with the names that each store lacks."""
    located: dict[str, dict[str, ChannelLocation]] = {}
    lacks = []
    for kind, layout in layouts.items():
        found = {channel: layout.find(channel) for channel in channels}
        located[kind] = {c: location for c, location in found.items() if location is not None}
        missing = [channel for channel, location in found.items() if location is None]
        if missing:
            lacks.append((kind, layout, missing))
    if not lacks:
        return located
    text = "; ".join(f"{kind} lack {missing_names(names, layout)}" for kind, layout, names in lacks)
    derived = any(name.endswith("_anomalies") for _, _, names in lacks for name in names)
    raise FormatError(
        address(
            f"channels: {text}",
            store=", ".join(layout.store.path for _, layout, _ in lacks),
            hint="anomalies are read where they are stored, with their statistics, but not derived"
            if derived
            else None,
        )
    )


def _fields(layout: Layout, locations: Mapping[str, ChannelLocation]) -> dict[str, Field]:
    """The arrays of the channels, by name: all of one shape and on the same dimensions."""
    fields: dict[str, Field] = {}
    first: Field | None = None
    for channel, location in locations.items():
        if location.array in fields:
            continue
        field = Field(array=layout.store.array(location.array))
        if field.has_levels and location.level is None:
            raise FormatError(
                address(
                    f"{channel}: dimensions: got a level axis ({', '.join(field.array.dims)}), "
                    "expected (time, lat|y, lon|x)",
                    store=layout.store.path,
                    hint=f"ask for its levels, {channel}_0 and so on",
                )
            )
        first = first or field
        got, expected = (
            dict(zip(("time", *f.array.dims[-2:]), f.shape, strict=True)) for f in (field, first)
        )
        if got != expected:
            raise FormatError(
                address(
                    f"{field.array.name}: shape: got {got}, expected {expected} "
                    f"as in {first.array.name}",
                    store=layout.store.path,
                )
            )
        fields[location.array] = field
    return fields


def _coordinates(
    layout: Layout, fields: Mapping[str, Field]
) -> tuple[NDArray[np.object_], NDArray[np.float64], NDArray[np.float64]]:
    """Time, lat and lon: the coordinates of the dimensions that the fields have."""
    store = layout.store
    field = next(iter(fields.values()))
    values = []
    for dim, size in zip(("time", *field.array.dims[-2:]), field.shape, strict=True):
        if dim not in store.names:
            raise FormatError(
                address(f"{dim}: coordinate: got none, expected {size} values", store=store.path)
            )
        array = store.array(dim)
        if array.dims != (dim,) or array.shape != (size,):
            raise FormatError(
                address(
                    f"{dim}: coordinate: got {array.dims} of shape {array.shape}, "
                    f"expected ({dim}) of shape ({size},)",
                    store=store.path,
                )
            )
        values.append(array.read())
    time = decode_time(values[0], store.array("time").attributes, store=store.path)
    lat, lon = (np.array(v, dtype=np.float64) for v in values[1:])
    for dim, coordinate in zip(field.array.dims[-2:], (lat, lon), strict=True):
        if not np.isfinite(coordinate).all():
            raise FormatError(
                address(f"{dim}: coordinate: got NaN, expected degrees", store=store.path)
            )
        coordinate.flags.writeable = False
    return time, lat, lon


def _metadata(
    fields: Mapping[str, Field], locations: Mapping[str, ChannelLocation]
) -> Mapping[str, Mapping[str, str]]:
    return MappingProxyType(
        {
            channel: MappingProxyType(describe(channel, fields[location.array].array.attributes))
            for channel, location in locations.items()
        }
    )
