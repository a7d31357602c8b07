"""The time coordinate: decoding it in its own calendar, and cutting a range of dates out of it.

Dates are cftime objects throughout, whatever the calendar. Spacing is never assumed.
"""

from __future__ import annotations

import datetime as dt
import re
from bisect import bisect_left, bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import cftime
import numpy as np
from numpy.typing import NDArray

from niskin.errors import FormatError, UsageError, address

__all__ = ["Period", "calendar_name", "decode_time", "parse_bound", "select"]

Dates = NDArray[np.object_]

_ALIASES = {"gregorian": "standard", "365_day": "noleap", "366_day": "all_leap"}
_CALENDARS = (
    "standard", "proleptic_gregorian", "julian", "noleap", "all_leap", "360_day"
)  # fmt: skip
_BOUND = re.compile(
    r"(\d{4,})(?:-(\d\d)(?:-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6}))?)?)?)?)?"
)


def calendar_name(attributes: Mapping[str, Any], *, store: str) -> str:
    """The calendar that a time coordinate's attributes name, with CF's aliases resolved.

    `calendar`, else `calendar_type`, in any case; "standard" where neither is there. Raises
    FormatError for a calendar that CF does not know.
    """
    given = attributes.get("calendar", attributes.get("calendar_type", "standard"))
    name = str(given).strip().lower()
    name = _ALIASES.get(name, name)
    if name not in _CALENDARS:
        known = ", ".join(sorted((*_CALENDARS, *_ALIASES)))
        raise FormatError(
            address(f"time: calendar: got {given!r}, expected one of {known}", store=store)
        )
    return name


def decode_time(numbers: NDArray[Any], attributes: Mapping[str, Any], *, store: str) -> Dates:
    """The dates of a time coordinate: a read-only object array of cftime, strictly increasing.

    `numbers` count the `units` attribute. Raises FormatError for units that cannot be read, a
    number that is not finite, and a date that is not later than the one before it.
    """
    if numbers.ndim != 1:
        raise FormatError(address(f"time: got {numbers.ndim} dimensions, expected 1", store=store))
    if numbers.size == 0:
        raise FormatError(address("time: got no points, expected at least one", store=store))
    if numbers.dtype.kind not in "iuf":
        raise FormatError(
            address(f"time: dtype: got {numbers.dtype}, expected a number", store=store)
        )
    if numbers.dtype.kind == "f" and not np.isfinite(numbers).all():
        index = int(np.flatnonzero(~np.isfinite(numbers))[0])
        raise FormatError(
            address(f"time: got {numbers[index]} at index {index}, expected a date", store=store)
        )
    units = attributes.get("units")
    calendar = calendar_name(attributes, store=store)
    try:
        dates = cftime.num2date(
            numbers.astype(numbers.dtype.newbyteorder("=")),
            str(units),
            calendar=calendar,
            only_use_cftime_datetimes=True,
        )
    except (ValueError, TypeError, OverflowError) as error:
        raise FormatError(
            address(
                f"time: units: got {units!r} ({error}), expected such as 'days since 1958-01-01'",
                store=store,
            )
        ) from error
    time: Dates = np.empty(numbers.shape, dtype=object)
    time[:] = dates
    _check_increasing(time, store)
    time.flags.writeable = False
    return time


def _check_increasing(time: Dates, store: str) -> None:
    wrong = np.flatnonzero(~(time[1:] > time[:-1]))
    if wrong.size == 0:
        return
    index = int(wrong[0]) + 1
    found = "repeats" if time[index] == time[index - 1] else "goes back"
    raise FormatError(
        address(
            f"time: {found} at index {index}: got {time[index]} after {time[index - 1]}, "
            "expected strictly increasing dates",
            store=store,
            hint="appending may have stored rows twice, or dates in units too coarse for them",
        )
    )


@dataclass(frozen=True, kw_only=True, slots=True)
class Period:
    """The dates that a bound names: from `first`, until just before `after` (None: one instant)."""

    first: cftime.datetime
    after: cftime.datetime | None

    def before(self, date: cftime.datetime) -> bool:
        """Whether the whole period is earlier than `date`."""
        if self.after is None:
            return bool(self.first < date)
        return bool(self.after <= date)


def parse_bound(
    bound: str | cftime.datetime, like: cftime.datetime, *, name: Literal["start", "end"]
) -> Period:
    """The period that a bound of a date range names, in the calendar of the date `like`.

    "2000" is that year, "2000-02" that month, "2000-02-30" that day, and "2000-02-30T12:00" (or a
    cftime object) that instant. Raises UsageError for a date that the calendar does not have and
    for a cftime object of another calendar.
    """
    if isinstance(bound, cftime.datetime):
        calendar = _ALIASES.get(bound.calendar, bound.calendar)
        if calendar != like.calendar:
            raise UsageError(
                f"between: {name}: got a date of calendar {calendar}, expected {like.calendar}"
            )
        fields = (bound.year, bound.month, bound.day, bound.hour, bound.minute, bound.second)
        return Period(first=_date(like, *fields, bound.microsecond), after=None)
    match = _BOUND.fullmatch(bound.strip()) if isinstance(bound, str) else None
    if match is None:
        raise UsageError(
            address(
                f"between: {name}: got {bound!r}, expected a date",
                hint="write YYYY, YYYY-MM, YYYY-MM-DD or YYYY-MM-DDTHH:MM, or give a cftime object",
            )
        )
    year, month, day, hour, minute, second = (int(g) if g else None for g in match.groups()[:6])
    microsecond = int((match[7] or "").ljust(6, "0"))
    assert year is not None
    try:
        first = _date(
            like, year, 1 if month is None else month, 1 if day is None else day, hour or 0,
            minute or 0, second or 0, microsecond,
        )  # fmt: skip
        if hour is not None:
            return Period(first=first, after=None)
        if day is not None:
            return Period(first=first, after=first + dt.timedelta(days=1))
        if month is not None and month < 12:
            return Period(first=first, after=_date(like, year, month + 1, 1))
        return Period(first=first, after=_date(like, year + 1, 1, 1))
    except ValueError as error:
        raise UsageError(
            f"between: {name}: got {bound!r}, expected a date of calendar {like.calendar} ({error})"
        ) from error


def _date(like: cftime.datetime, *fields: int) -> cftime.datetime:
    return type(like)(*fields, has_year_zero=like.has_year_zero)


def select(
    time: Dates,
    start: str | cftime.datetime,
    end: str | cftime.datetime,
    *,
    clip: bool,
    exclusive_end: bool,
    store: str,
) -> tuple[int, int]:
    """The half-open range of positions on `time` from `start` to `end`.

    A start bound takes its period's start and an end bound its period's end, both included;
    `exclusive_end` leaves out the whole period of `end`. Raises UsageError where the range lies
    outside the dates of `time`, holds none of them, or is partly outside and `clip` is false.
    """
    first, last = time[0], time[-1]
    begin = parse_bound(start, first, name="start")
    stop = parse_bound(end, first, name="end")
    asked = f"{start} to {end}" + (" (end excluded)" if exclusive_end else "")
    have = f"dates from {first} to {last}"
    if stop.before(begin.first):
        raise UsageError(f"between: got start {start} after end {end}, expected them in order")
    if begin.first > last or stop.before(first):
        raise UsageError(
            address(f"between: {asked} is entirely outside, expected {have}", store=store)
        )
    if not clip and (begin.before(first) or stop.first > last):
        raise UsageError(
            address(
                f"between: {asked} is partly outside, expected {have}",
                store=store,
                hint="clip=True takes the part that is there",
            )
        )
    low = bisect_left(time, begin.first)
    if exclusive_end:
        high = bisect_left(time, stop.first)
    elif stop.after is None:
        high = bisect_right(time, stop.first)
    else:
        high = bisect_left(time, stop.after)
    if high <= low:
        raise UsageError(
            address(f"between: {asked} holds no row, expected at least one of {have}", store=store)
        )
    return low, high
