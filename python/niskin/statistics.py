"""Means and standard deviations, matched to channels by name and never by position."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from niskin.errors import FormatError, address
from niskin.layout import ChannelLocation, Layout, check_same_levels

__all__ = ["check_statistics", "read_statistics"]

Values = Mapping[str, np.floating[Any]]


def read_statistics(
    layout: Layout,
    locations: Mapping[str, ChannelLocation],
    data_depths: Mapping[str, float | None],
    *,
    kind: str,
) -> Values:
    """One number for each channel, in its stored type; `locations` say where in this store.

    A 0-d array, or the element at the channel's level of an array over `lev`. Integers become
    float64. `data_depths` are the channels' depths in metres in the data, None where unknown.
    Raises FormatError for other shapes and for levels at other depths, StoreError for an absent
    value.
    """
    arrays: dict[str, NDArray[Any]] = {}
    values: dict[str, np.floating[Any]] = {}
    for channel, location in locations.items():
        if location.array not in arrays:
            array = layout.store.array(location.array)
            expected = () if location.level is None else ("lev",)
            if array.dims != expected:
                raise FormatError(
                    address(
                        f"{array.name}: {kind}: got dimensions {array.dims}, expected {expected}",
                        store=array.store,
                    )
                )
            read = array.read(required=True)
            arrays[location.array] = read if read.dtype.kind == "f" else read.astype(np.float64)
        check_same_levels(
            channel, data_depths[channel], layout.depth(location),
            what=f"its {kind}", store=layout.store.path,
        )  # fmt: skip
        stored = arrays[location.array]
        value: Any = stored if location.level is None else stored[location.level]
        values[channel] = value[()]
    return MappingProxyType(values)


def check_statistics(
    means: Values,
    stds: Values,
    masks: Mapping[str, NDArray[np.bool_]],
    *,
    means_store: str,
    stds_store: str,
) -> None:
    """Refuses statistics that would deliver wrong numbers.

    Raises FormatError for a std that is negative, zero (also after the cast to float32) or not
    finite and for a mean that is not finite, on a channel with a wet cell; and for means that all
    equal their stds. A channel without a wet cell is delivered as its fill value, so its
    statistics do not matter.
    """
    wet = [channel for channel in means if masks[channel].any()]
    with np.errstate(over="ignore"):
        std32 = {c: np.float32(stds[c]) for c in wet}
        mean32 = {c: np.float32(means[c]) for c in wet}
    bad = [c for c in wet if not (np.isfinite(std32[c]) and std32[c] > 0)]
    if bad:
        got = ", ".join(f"{c} {stds[c]:g}" for c in bad)
        raise FormatError(
            address(f"std: got {got}, expected finite and above 0 where wet", store=stds_store)
        )
    bad = [c for c in wet if not np.isfinite(mean32[c])]
    if bad:
        got = ", ".join(f"{c} {means[c]:g}" for c in bad)
        raise FormatError(address(f"mean: got {got}, expected finite where wet", store=means_store))
    if wet and all(means[c] == stds[c] for c in wet):
        raise FormatError(
            address(
                f"means and stds: got equal values for all of {len(wet)} channels, expected others",
                store=f"{means_store} and {stds_store}",
                hint="the same statistics may have been given, or written, twice",
            )
        )
