"""Mean and standard deviation of each channel over the wet cells of all rows, in float64."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .grid import Plane

__all__ = ["Moments"]


class Moments:
    """The moments of one channel, gathered row by row in any order.

    Every row has the same number of wet cells, so a mean and a sum of squared deviations per row
    give the moments of all rows without cancellation, the same whatever the order and the threads.
    """

    def __init__(self, rows: int, wet: NDArray[np.bool_]) -> None:
        self._cells = np.flatnonzero(wet)
        self._means = np.full(rows, np.nan)
        self._squares = np.full(rows, np.nan)

    def add(self, row: int, plane: Plane) -> None:
        """Take the plane (ny, nx) of a row into account; once for every row."""
        if not len(self._cells):
            return
        values = plane.ravel().take(self._cells).astype(np.float64)
        mean = float(values.mean())
        values -= mean
        self._means[row] = mean
        self._squares[row] = float(np.square(values, out=values).sum())

    def result(self) -> tuple[float, float]:
        """Mean and population standard deviation; NaN where there is no wet cell."""
        mean = float(self._means.mean())
        between = np.square(self._means - mean).mean()
        within = self._squares.mean() / max(len(self._cells), 1)
        return mean, float(np.sqrt(within + between))
