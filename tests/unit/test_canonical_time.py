from __future__ import annotations

import itertools
from typing import Any

import cftime
import numpy as np
import pytest

from niskin.errors import FormatError, UsageError
from niskin.time_axis import Dates, calendar_name, decode_time, parse_bound, select


def decode(numbers: Any, units: str = "days since 2000-01-01", **attributes: str) -> Dates:
    return decode_time(np.asarray(numbers), {"units": units, **attributes}, store="s.zarr")


def span(time: Dates, start: Any, end: Any, **options: bool) -> tuple[int, int]:
    flags = {"clip": False, "exclusive_end": False} | options
    return select(time, start, end, store="s.zarr", **flags)


@pytest.mark.parametrize(
    ("calendar", "from_year_1", "from_1900"),
    [
        ("julian", "1958-07-26 00:00:00", "1958-01-01 12:00:00"),
        ("noleap", "1959-11-27 00:00:00", "1958-01-16 12:00:00"),
        ("360_day", "1987-02-11 00:00:00", "1958-11-06 12:00:00"),
        ("proleptic_gregorian", "1958-08-10 00:00:00", "1958-01-02 12:00:00"),
        ("standard", "1958-08-08 00:00:00", "1958-01-02 12:00:00"),
        ("all_leap", "1954-07-21 00:00:00", "1957-11-19 12:00:00"),
    ],
)
def test_dates_are_those_of_the_calendar(calendar: str, from_year_1: str, from_1900: str) -> None:
    assert str(decode([715000], "days since 0001-01-01", calendar=calendar)[0]) == from_year_1
    assert str(decode([21185.5], "days since 1900-01-01", calendar=calendar)[0]) == from_1900


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"calendar": "JULIAN"}, "julian"),
        ({"calendar": "gregorian"}, "standard"),
        ({"calendar": "365_day"}, "noleap"),
        ({"calendar": "366_day"}, "all_leap"),
        ({"calendar_type": "NoLeap"}, "noleap"),
        ({}, "standard"),
    ],
)
def test_calendar_names_have_aliases_and_a_default(attributes: dict[str, str], name: str) -> None:
    assert calendar_name(attributes, store="s.zarr") == name


def test_an_unknown_calendar_is_refused() -> None:
    with pytest.raises(FormatError, match="time: calendar: got 'martian', expected one of 360_day"):
        decode([0, 1], calendar="martian")


@pytest.mark.parametrize("dtype", ["<i4", "<i8", ">i8", "<f4", ">f8"])
def test_any_number_type_decodes_to_cftime(dtype: str) -> None:
    time = decode(np.array([0, 5, 10], dtype=dtype), calendar="julian")

    assert time.dtype == object
    assert str(time[2]) == "2000-01-11 00:00:00"
    assert isinstance(time[0], cftime.DatetimeJulian)


@pytest.mark.parametrize(
    ("numbers", "message"),
    [
        ([0, 5, 5], r"repeats at index 2: got 2000-01-06 00:00:00 after 2000-01-06 00:00:00"),
        ([0, 5, 3], r"goes back at index 2: got 2000-01-04 00:00:00 after 2000-01-06 00:00:00"),
        ([0, 0, 0, 0, 1, 1, 1, 1], "repeats at index 1"),
        ([0, np.nan], "got nan at index 1, expected a date"),
        ([], "got no points"),
        ([[0, 1]], "got 2 dimensions, expected 1"),
        (["a"], "dtype"),
    ],
)
def test_an_axis_that_does_not_increase_is_refused(numbers: Any, message: str) -> None:
    with pytest.raises(FormatError, match=f"^time: .*{message}"):
        decode(numbers)


def test_units_that_cannot_be_read_are_refused() -> None:
    with pytest.raises(FormatError, match="time: units: got 'fortnights'"):
        decode([0, 1], "fortnights")


# Julian pentads at noon around a 29 February, with the 6-day step of a leap year.
PENTADS = decode([40.5, 45.5, 50.5, 55.5, 61.5, 66.5], calendar="julian")


def test_a_six_day_step_is_kept_as_it_is() -> None:
    steps = {(b - a).days for a, b in itertools.pairwise(PENTADS)}

    assert steps == {5, 6}
    assert [str(t)[:10] for t in PENTADS[3:5]] == ["2000-02-25", "2000-03-02"]


@pytest.mark.parametrize(
    ("start", "end", "rows"),
    [
        ("2000-02-10", "2000-03-07", (0, 6)),  # whole days: noon is within both ends
        ("2000-02-15", "2000-02-25", (1, 4)),
        ("2000-02-16", "2000-02-24", (2, 3)),
        ("2000-02", "2000-02", (0, 4)),
        ("2000", "2000", (0, 6)),
        ("2000-03", "2000", (4, 6)),
        ("2000-02-15T12:00", "2000-02-20 12:00:00", (1, 3)),
        ("2000-02-15T12:00:00.000001", "2000-02-20T11:59", None),
        (cftime.datetime(2000, 2, 15, 12, calendar="julian"), "2000-02-20", (1, 3)),
        ("2000-02-15", "2000-02", (1, 4)),
    ],
)
def test_both_ends_of_a_range_are_included(
    start: Any, end: Any, rows: tuple[int, int] | None
) -> None:
    if rows is None:
        with pytest.raises(UsageError, match="holds no row"):
            span(PENTADS, start, end)
    else:
        assert span(PENTADS, start, end) == rows


def test_exclusive_end_leaves_out_the_whole_period() -> None:
    assert span(PENTADS, "2000-02-15", "2000-02-25", exclusive_end=True) == (1, 3)
    assert span(PENTADS, "2000-02-15", "2000-03", exclusive_end=True) == (1, 4)
    assert span(PENTADS, "2000-02-15", "2000-02-25T12:00", exclusive_end=True) == (1, 3)


@pytest.mark.parametrize(
    ("start", "end", "message"),
    [
        ("2001", "2002", "entirely outside"),
        ("1999", "2000-02-09", "entirely outside"),
        ("2000-02-09", "2000-02-20", "partly outside"),
        ("2000-02-15", "2000-03-08", "partly outside"),
        ("2000-02-21", "2000-02-24", "holds no row"),
        ("2000-02-20", "2000-02-15", "got start 2000-02-20 after end 2000-02-15"),
    ],
)
def test_a_range_outside_the_dates_is_refused(start: str, end: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        span(PENTADS, start, end)


def test_clip_takes_what_is_there() -> None:
    assert span(PENTADS, "1990", "2000-02-20", clip=True) == (0, 3)
    assert span(PENTADS, "2000-02-20", "2010", clip=True) == (2, 6)
    with pytest.raises(UsageError, match="entirely outside"):
        span(PENTADS, "2001", "2002", clip=True)


@pytest.mark.parametrize(
    ("calendar", "date", "exists"),
    [
        ("noleap", "2000-02-29", False),
        ("360_day", "2000-02-30", True),
        ("360_day", "2000-01-31", False),
        ("julian", "1900-02-29", True),
        ("standard", "1900-02-29", False),
        ("standard", "2000-02-30", False),
        ("standard", "2000-13", False),
        ("standard", "2000-00", False),
        ("standard", "2000-01-00", False),
    ],
)
def test_bounds_are_dates_of_the_stores_calendar(calendar: str, date: str, exists: bool) -> None:
    like = decode([0], calendar=calendar)[0]

    if exists:
        period = parse_bound(date, like, name="start")
        assert str(period.first)[:10] == date
    else:
        with pytest.raises(UsageError, match=rf"start: got '{date}', expected a date"):
            parse_bound(date, like, name="start")


def test_a_month_and_a_year_end_where_the_next_begins() -> None:
    like = decode([0], calendar="360_day")[0]

    ends = [parse_bound(text, like, name="end").after for text in ("2000-02", "2000-12", "1999")]

    assert [str(e)[:10] for e in ends] == ["2000-03-01", "2001-01-01", "2000-01-01"]


def test_noleap_28_february_is_followed_by_march() -> None:
    like = decode([0], calendar="noleap")[0]

    assert str(parse_bound("2000-02-28", like, name="end").after)[:10] == "2000-03-01"
    assert str(decode([59], calendar="noleap")[0])[:10] == "2000-03-01"


@pytest.mark.parametrize("bound", ["02/15/2000", "", "2000-2-1", "2000-02-01T", 2000, None])
def test_what_is_not_a_date_is_refused(bound: Any) -> None:
    with pytest.raises(UsageError, match="expected a date"):
        parse_bound(bound, PENTADS[0], name="start")


def test_a_bound_in_another_calendar_is_refused_not_converted() -> None:
    bound = cftime.datetime(2000, 2, 15, calendar="noleap")

    with pytest.raises(UsageError, match="end: got a date of calendar noleap, expected julian"):
        span(PENTADS, "2000-02-15", bound)


def test_an_aliased_calendar_is_the_same_calendar() -> None:
    time = decode([0, 5], calendar="gregorian")

    assert span(time, cftime.DatetimeGregorian(2000, 1, 1), "2000-01-06") == (0, 2)
