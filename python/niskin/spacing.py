"""The spacing of a time axis: windows that would span a hole, and a report of uneven steps."""

from __future__ import annotations

import re
import warnings
from datetime import timedelta

import numpy as np
from numpy.typing import NDArray

from niskin.errors import UsageError, address

__all__ = ["parse_gap", "starts_without_hole", "warn_if_irregular"]

Dates = NDArray[np.object_]  # of cftime.datetime

_GAP = re.compile(r"(\d+(?:\.\d+)?) ?(D|d|h|min|s)")
_UNIT = {"D": "days", "d": "days", "h": "hours", "min": "minutes", "s": "seconds"}

_reported: set[tuple[str, str]] = set()


def parse_gap(max_gap: timedelta | str) -> timedelta:
    """A positive length of time, given as such or as text: "6D", "36h", "90min", "30s".

    Raises UsageError for any other value.
    """
    gap = max_gap
    if isinstance(gap, str) and (match := _GAP.fullmatch(gap.strip())):
        gap = timedelta(**{_UNIT[match[2]]: float(match[1])})
    if not isinstance(gap, timedelta) or gap <= timedelta(0):
        raise UsageError(
            f'max_gap: got {max_gap!r}, expected a positive timedelta or text like "6D"'
        )
    return gap


def starts_without_hole(time: Dates, span: int, max_gap: timedelta) -> NDArray[np.int64]:
    """First positions of the windows of `span + 1` rows whose neighbours lie within `max_gap`."""
    holes = np.asarray(np.diff(time) > max_gap, dtype=np.int64)
    before = np.concatenate(([0], np.cumsum(holes)))
    return np.flatnonzero(before[span:] == before[: len(time) - span])


def warn_if_irregular(time: Dates, *, store: str) -> None:
    """Warns about steps that differ from the usual one, with their dates; once per axis."""
    if len(time) < 3:
        return
    steps = np.diff(time)
    usual = np.sort(steps)[len(steps) // 2]
    unusual = np.flatnonzero(steps != usual)
    if unusual.size == 0:
        return
    longest = unusual[np.argmax(steps[unusual])]
    shown = "; ".join(f"{steps[i]} from {time[i]} to {time[i + 1]}" for i in unusual[:3])
    more = f"; … longest {steps[longest]} from {time[longest]}" if unusual.size > 3 else ""
    what = (
        f"time: got {unusual.size} of {steps.size} steps that are not {usual} as the others, "
        f"expected one spacing: {shown}{more}"
    )
    if (store, what) in _reported:
        return
    _reported.add((store, what))
    text = address(
        what,
        store=store,
        hint="windows are by position and span these steps; max_gap leaves such windows out",
    )
    warnings.warn(text, UserWarning, stacklevel=5)
