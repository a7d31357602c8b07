"""Where a canonical channel lies in a store: which array, and which level of it.

The same rule serves data, masks and statistics, flat and compact alike.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from niskin.channels import DEPTHS_M, depth_in_name, level_of_depth, same_depth, split_level
from niskin.errors import FormatError, address, near_names
from niskin.raw_store import RawStore

__all__ = ["ChannelLocation", "Layout", "check_same_levels"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelLocation:
    """The array of a channel; `level` is the position on its `lev` axis, None if it has none."""

    array: str
    level: int | None


class Layout:
    """The mapping from channels to arrays of one store. Immutable."""

    def __init__(self, store: RawStore) -> None:
        self.store = store
        self._by_depth: dict[tuple[str, int], list[str]] = {}
        self._off_table: dict[str, list[str]] = {}
        for name in sorted(n for n in store.names if "_lev_" in n):
            base, depth = depth_in_name(name)
            level = None if depth is None else level_of_depth(depth)
            if level is None:
                self._off_table.setdefault(base, []).append(name)
            else:
                self._by_depth.setdefault((base, level), []).append(name)

    def find(self, channel: str) -> ChannelLocation | None:
        """The first that matches: an array of that name; `base_k` as level k of `base(lev, …)`; the
        one array `base_lev_<depth>` whose depth is that of level k. None where nothing does.

        Raises FormatError for two arrays of one depth, and for an array of `base` whose depth is
        not in the table.
        """
        if channel in self.store.names:
            return ChannelLocation(array=channel, level=None)
        base, level = split_level(channel)
        if level is None:
            return None
        if base in self.store.names:
            array = self.store.array(base)
            if "lev" in array.dims and level < array.size("lev"):
                return ChannelLocation(array=base, level=level)
        named = self._by_depth.get((base, level), [])
        if len(named) > 1:
            raise FormatError(
                address(
                    f"{channel}: got {' and '.join(named)} at one depth, expected one array",
                    store=self.store.path,
                )
            )
        self._refuse_off_table(base)
        return ChannelLocation(array=named[0], level=None) if named else None

    def available(self) -> list[str]:
        """The channels that `find` would find, sorted."""
        found: set[str] = set()
        for name in self.store.names:
            if "_lev_" in name:
                continue
            try:
                array = self.store.array(name)
            except FormatError:  # nobody asked for it
                continue
            if name in array.dims:
                continue
            if "lev" in array.dims:
                found.update(f"{name}_{k}" for k in range(array.size("lev")))
            else:
                found.add(name)
        found.update(f"{base}_{level}" for base, level in self._by_depth)
        return sorted(found)

    def depth(self, location: ChannelLocation, level_dim: str = "lev") -> float | None:
        """The depth in metres that the store states for a location, None where it states none.

        From the level coordinate of a compact array (unless that only counts 0, 1, 2, …) or from
        the depth in an array's name.
        """
        if location.level is None:
            return depth_in_name(location.array)[1] if "_lev_" in location.array else None
        if level_dim not in self.store.names:
            return None
        depths = self.store.array(level_dim).read()
        if depths.ndim != 1 or np.array_equal(depths, np.arange(depths.size)):
            return None
        return float(depths[location.level]) if location.level < depths.size else None

    def _refuse_off_table(self, base: str) -> None:
        names = self._off_table.get(base)
        if names:
            table = ", ".join(f"{depth:g}" for depth in DEPTHS_M)
            raise FormatError(
                address(
                    f"{names[0]}: depth: no level within tolerance; have {table} m",
                    store=self.store.path,
                    hint="depths match within 1e-5, never the nearest",
                )
            )


def check_same_levels(
    channel: str,
    data: float | None,
    other: float | None,
    *,
    what: str,
    store: str,
) -> None:
    """Refuses a mask or statistic (`what`) whose depth is not that of the data."""
    if data is None or other is None or same_depth(data, other):
        return
    raise FormatError(
        address(
            f"{channel}: level: {what} lies at {other:g} m, expected {data:g} m as in the data",
            store=store,
            hint="levels are matched by position; reorder one of them",
        )
    )


def missing_names(missing: Sequence[str], layout: Layout) -> str:
    """For an error: the names that a store lacks, and what it has that is like them."""
    available = layout.available()
    near = "; ".join(f"{name}: have {near_names(name, available)}" for name in missing[:3])
    more = f" and {len(missing) - 10} more" if len(missing) > 10 else ""
    return f"{', '.join(missing[:10])}{more} ({near})"
