"""NaN and infinities in wet cells: counting them, and saying where the first one is."""

from __future__ import annotations

from dataclasses import dataclass

import cftime
import numpy as np
from numpy.typing import NDArray

__all__ = ["BadValues", "count_bad"]


@dataclass(frozen=True, kw_only=True, slots=True)
class BadValues:
    """How many wet cells hold NaN or an infinity, and the index of the first in C order."""

    count: int
    first: tuple[int, ...]

    def describe(self, channel: str, time: cftime.datetime) -> str:
        """The first line of a warning or error about one plane."""
        cells = "cell" if self.count == 1 else "cells"
        return (
            f"{channel}: {time}: got NaN or infinity in {self.count} wet {cells}, "
            f"first at {self.first}, expected finite values"
        )


def count_bad(values: NDArray[np.floating], mask: NDArray[np.bool_]) -> BadValues | None:
    """The wet cells of `values` (…, ny, nx) that are not finite; None if there is none.

    `mask` (ny, nx), or any shape that broadcasts to the values: True is wet.
    """
    bad = ~np.isfinite(values) & mask
    count = int(np.count_nonzero(bad))
    if count == 0:
        return None
    first = np.unravel_index(int(np.argmax(bad)), bad.shape)
    return BadValues(count=count, first=tuple(int(i) for i in first))
