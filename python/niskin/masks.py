"""Land-sea masks: one per level, wet where finite and greater than 0.

Flat (`mask_3`), stacked (`wetmask` with a level axis), or either with a time axis, of which the
first row counts and the last must be equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from niskin.channels import mask_level
from niskin.errors import FormatError, address
from niskin.layout import ChannelLocation, Layout, check_same_levels
from niskin.raw_store import RawArray

__all__ = ["read_masks"]

Mask = NDArray[np.bool_]
_SPATIAL = (("lat", "y"), ("lon", "x"))


def read_masks(
    layout: Layout, locations: Mapping[str, ChannelLocation], shape: tuple[int, int]
) -> Mapping[str, Mask]:
    """The mask of each channel: bool (ny, nx), True is wet, read-only; channels of a level share
    one.

    `locations` says where the channels lie, so that levels can be compared. Raises FormatError for
    a missing mask, one of another shape, one that changes in time, and levels at other depths.
    """
    by_level: dict[int, Mask] = {}
    stacks: dict[str, Mask] = {}
    masks = {}
    for channel, location in locations.items():
        level = mask_level(channel)
        array, position, level_dim = _locate(layout, channel, level)
        mask_depth = layout.depth(ChannelLocation(array=array.name, level=position), level_dim)
        if location.level is not None or "_lev_" in location.array:
            check_same_levels(
                channel, layout.depth(location), mask_depth,
                what=f"mask {array.name}", store=layout.store.path,
            )  # fmt: skip
        if level not in by_level:
            if array.name not in stacks:
                stacks[array.name] = _wet(array)
            stack = stacks[array.name]
            mask = stack if position is None else np.ascontiguousarray(stack[position])
            if mask.shape != shape:
                raise _wrong_form(array, f"shape {mask.shape}, expected {shape}")
            mask.flags.writeable = False
            by_level[level] = mask
        masks[channel] = by_level[level]
    return MappingProxyType(masks)


def _locate(layout: Layout, channel: str, level: int) -> tuple[RawArray, int | None, str]:
    """The array that holds a level's mask, the position in it, and the name of its level axis."""
    store = layout.store
    found = layout.find(f"mask_{level}")
    if found is not None:
        return store.array(found.array), found.level, "lev"
    if "wetmask" not in store.names:
        raise FormatError(
            address(
                f"{channel}: mask: got none, expected mask_{level} or wetmask with a level axis",
                store=store.path,
            )
        )
    array = store.array("wetmask")
    level_dims = _level_dims(array)
    if len(level_dims) != 1:
        raise _wrong_form(array, f"dimensions {array.dims}, expected one level axis")
    if level >= array.size(level_dims[0]):
        raise _wrong_form(
            array, f"{array.size(level_dims[0])} levels, expected level {level} for {channel}"
        )
    return array, level, level_dims[0]


def _level_dims(array: RawArray) -> list[str]:
    return [d for d in array.dims if d != "time" and not any(d in names for names in _SPATIAL)]


def _wet(array: RawArray) -> Mask:
    """The array as bool, without its time axis: (level, ny, nx) or (ny, nx)."""
    dims = tuple(d for d in array.dims if d != "time")
    spatial = dims[-2:]
    if len(spatial) != 2 or any(d not in names for d, names in zip(spatial, _SPATIAL, strict=True)):
        raise _wrong_form(array, f"dimensions {array.dims}, expected lat|y, lon|x as the last two")
    if "time" not in array.dims:
        return _threshold(array.read())
    first, last = (_threshold(array.read(time=row)) for row in (0, -1))
    changed = int(np.count_nonzero(first != last))
    if changed:
        raise _wrong_form(array, f"{changed} cells that differ between its first and last row")
    return first


def _threshold(values: NDArray[Any]) -> Mask:
    wet: Mask = values > 0
    return wet & np.isfinite(values) if values.dtype.kind == "f" else wet


def _wrong_form(array: RawArray, what: str) -> FormatError:
    return FormatError(address(f"{array.name}: mask: got {what}", store=array.store))
