"""The time axis: 73 five-day means a year at noon, in the Julian calendar."""

from __future__ import annotations

import cftime
import numpy as np
from numpy.typing import NDArray

__all__ = ["CALENDAR", "PER_YEAR", "days_since", "pentad_dates", "year_phase"]

PER_YEAR = 73
CALENDAR = "julian"

_MONTH_LENGTHS = (31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)
# Month and day of every pentad: 3 January and every fifth day on, as if 29 February did not exist.
# In a leap year the step across that day is therefore six days long.
_DATES = [
    (month + 1, day)
    for month, length in enumerate(_MONTH_LENGTHS)
    for day in range(1, length + 1)
    if (sum(_MONTH_LENGTHS[:month]) + day - 3) % 5 == 0
]


def pentad_dates(start_year: int, rows: int) -> list[cftime.datetime]:
    """Dates of `rows` successive pentads from 3 January of `start_year`, 12:00."""
    dates = []
    for row in range(rows):
        year, pentad = divmod(row, PER_YEAR)
        month, day = _DATES[pentad]
        dates.append(cftime.datetime(start_year + year, month, day, 12, calendar=CALENDAR))
    return dates


def days_since(start_year: int, rows: int) -> tuple[NDArray[np.int64], str]:
    """The same dates as whole days, with the CF units that they are in."""
    units = f"days since {start_year:04d}-01-01 12:00:00"
    numbers = cftime.date2num(pentad_dates(start_year, rows), units, CALENDAR)
    return np.asarray(numbers, dtype=np.int64), units


def year_phase(row: int) -> float:
    """Phase of the year at a row, radians; the same in every year."""
    return 2 * np.pi * ((row % PER_YEAR) * 5 + 2.5) / 365
