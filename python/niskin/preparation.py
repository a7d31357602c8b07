"""From raw planes to what a model sees: normalize, rule for NaN and infinities, mask. Exactly.

`(x - mean) / std` in float32, subtraction then true division; NaN becomes 0 and ±inf the largest
float32 of its sign; dry cells become the fill value. With `normalize_before_mask` the fill value is
written last, otherwise first, in physical units, and is normalized like the rest. A channel without
a wet cell is the fill value itself everywhere, in both orders and whatever its statistics.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from niskin.bad_values import BadValues, count_bad

if TYPE_CHECKING:
    from niskin.canonical import CanonicalDataset

__all__ = ["Finding", "Preparation"]


class Finding(NamedTuple):
    """Bad values in one plane: row and channel as numbers in the block that was prepared."""

    row: int
    channel: int
    values: BadValues


class Preparation:
    """Prepares planes of some channels of a dataset."""

    def __init__(
        self,
        source: CanonicalDataset,
        channels: Sequence[str],
        *,
        normalize_before_mask: bool,
        masked_fill_value: float,
    ) -> None:
        means, stds = source.statistics(channels)
        self._means = means.astype(np.float32)
        self._stds = stds.astype(np.float32)
        self._fill = np.float32(masked_fill_value)
        self._normalize_first = normalize_before_mask
        self._check = source.bad_values != "ignore"
        masks = [source.masks[channel] for channel in channels]
        # Channels of a level have the same mask object, so there is one selection for each level.
        by_mask = {id(mask): _Selection(mask, self._fill) for mask in masks}
        self._selections = [by_mask[id(mask)] for mask in masks]

    def apply(self, planes: NDArray[np.float32]) -> list[Finding]:
        """Prepares C-contiguous `planes` (row, channel, ny, nx) in place.

        Returns the bad values that were found, unless the dataset ignores them.
        """
        findings: list[Finding] = []
        finite = np.empty(planes.shape[2:], dtype=bool)
        with np.errstate(all="ignore"):  # NaN and infinities have their own rule
            for row, channel in np.ndindex(planes.shape[:2]):
                plane, selection = planes[row, channel], self._selections[channel]
                if not selection.has_wet_cell:
                    plane.fill(self._fill)
                    continue
                bad = count_bad(plane, selection.mask) if self._check else None
                if bad is not None:
                    findings.append(Finding(row, channel, bad))
                self._prepare(plane, channel, selection, finite)
        return findings

    def _prepare(
        self,
        plane: NDArray[np.float32],
        channel: int,
        selection: _Selection,
        finite: NDArray[np.bool_],
    ) -> None:
        if not self._normalize_first:
            selection.fill_land(plane)
        np.subtract(plane, self._means[channel], out=plane)
        np.divide(plane, self._stds[channel], out=plane)
        np.isfinite(plane, out=finite)
        if self._normalize_first:
            np.less_equal(selection.mask, finite, out=finite)  # land is written below
        if not finite.all():
            np.nan_to_num(plane, copy=False)
        if self._normalize_first:
            selection.fill_land(plane)


class _Selection:
    """Writes the fill value into the dry cells of a plane, by bits: faster than by condition."""

    def __init__(self, mask: NDArray[np.bool_], fill: np.float32) -> None:
        self.mask = mask  # True is wet
        self.has_wet_cell = bool(mask.any())
        self._keep = np.where(mask, np.uint32(0xFFFFFFFF), np.uint32(0))
        # The bits of +0.0 are zeros, and then there is nothing to add.
        fill_bits = fill.view(np.uint32)
        self._add = np.where(mask, np.uint32(0), fill_bits) if fill_bits else None

    def fill_land(self, plane: NDArray[np.float32]) -> None:
        bits = plane.view(np.uint32)
        np.bitwise_and(bits, self._keep, out=bits)
        if self._add is not None:
            np.bitwise_or(bits, self._add, out=bits)
