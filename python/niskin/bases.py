"""Bases: the few tensors that a batch really holds, and where rows of samples lie in them.

Pure values: no I/O. A loader fills one float32 array (base_rows, channel, ny, nx) for each
`BasePlan`; every published tensor is a view of one of them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from niskin.canonical import CanonicalDataset

__all__ = ["BasePlan", "Role", "RowLayout", "unique_bytes"]

Role = Literal["prognostic", "boundary", "label"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowLayout:
    """Row k of sample b is base row `b * sample_stride + k * row_stride`."""

    samples: int
    rows: int
    sample_stride: int
    row_stride: int

    @property
    def base_rows(self) -> int:
        """Rows that the base holds."""
        return (self.samples - 1) * self.sample_stride + (self.rows - 1) * self.row_stride + 1


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class BasePlan:
    """What one base holds: float32 (base_rows, channel, ny, nx), normalized and masked.

    `positions` (base_rows,) are int64 positions on `source.time`, one for each base row;
    statistics and masks are those of `source`.
    """

    role: Role
    source: CanonicalDataset
    channels: tuple[str, ...]
    layout: RowLayout
    positions: NDArray[np.int64]


def unique_bytes(plans: Iterable[BasePlan]) -> int:
    """Bytes of a batch with each (source, row, channel) plane counted once: what must be read."""
    rows: dict[tuple[int, tuple[str, ...]], set[int]] = {}
    plane_bytes: dict[int, int] = {}
    for plan in plans:
        source = plan.source
        rows.setdefault((id(source), plan.channels), set()).update(plan.positions.tolist())
        plane_bytes[id(source)] = source.lat.size * source.lon.size * 4
    return sum(
        len(positions) * len(channels) * plane_bytes[source]
        for (source, channels), positions in rows.items()
    )
