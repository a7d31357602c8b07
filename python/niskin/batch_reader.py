"""BatchReader: fills the bases of a batch through a dataset's own `read`, row by row each once.

What `CpuLoader` runs, in the caller's process or in workers.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from niskin.bad_value_policy import BadChannel
from niskin.bad_values import BadValues
from niskin.bases import BasePlan
from niskin.indexing import resolve
from niskin.preparation import Preparation
from niskin.shard import TrainingShard

if TYPE_CHECKING:
    import torch

__all__ = ["Bad", "BatchReader", "Loaded"]

# Raw planes of one read beside the bases. Large, so that a chunk of many rows is decoded once.
_READ_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Bad:
    """A `BadChannel` that travels: `base` is the number of the first base with these channels."""

    base: int
    channel: int
    count: int
    position: int
    plane: BadValues

    def of(self, plans: Sequence[BasePlan]) -> BadChannel:
        """The same, with the plan of its base."""
        return BadChannel(
            plan=plans[self.base], channel=self.channel, count=self.count,
            position=self.position, plane=self.plane,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """The filled bases of a batch, and what they took."""

    bases: tuple[torch.Tensor, ...]
    bad: tuple[Bad, ...]
    reads: int  # calls of the dataset's read
    bytes_read: int  # planes that they returned
    load_s: float


class BatchReader:
    """Reads batches of global sample indices. Pickles small: shards and nothing cached."""

    def __init__(self, shards: Sequence[TrainingShard], *, writable: bool) -> None:
        self._shards = tuple(shards)
        self._writable = writable
        self._preparations: dict[tuple[int, bool, bool], Preparation] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return _reader, (self._shards, self._writable)

    def read(self, indices: Sequence[int], *, shared: bool) -> Loaded:
        """Fills the bases of a batch; each row of each dataset and channel list is read once.

        Raises what `niskin.indexing.resolve`, `TrainingShard.bases` and the dataset's `read` raise.
        """
        import torch

        start = time.perf_counter()
        shard, local = resolve(self._shards, indices)
        plans = shard.bases(local, shared=shared, writable=self._writable)
        with torch.inference_mode(False):
            filler = _Filler(self, shard, plans)
            for group in filler.groups():
                filler.fill(group)
        return Loaded(
            bases=tuple(filler.bases[number] for number in range(len(plans))),
            bad=tuple(filler.bad[key] for key in sorted(filler.bad)),
            reads=filler.reads,
            bytes_read=filler.bytes_read,
            load_s=time.perf_counter() - start,
        )

    def preparation(self, shard: TrainingShard, plan: BasePlan) -> Preparation:
        """The preparation of a base, made once for each shard, source and kind of channels."""
        key = (id(shard), plan.source is shard.source, plan.role == "boundary")
        if key not in self._preparations:
            self._preparations[key] = Preparation(
                plan.source,
                plan.channels,
                normalize_before_mask=shard.normalize_before_mask,
                masked_fill_value=shard.masked_fill_value,
            )
        return self._preparations[key]


class _Filler:
    """The bases of one batch while they are being filled."""

    def __init__(
        self, reader: BatchReader, shard: TrainingShard, plans: Sequence[BasePlan]
    ) -> None:
        self._reader = reader
        self._shard = shard
        self._plans = plans
        self.bases: dict[int, torch.Tensor] = {}
        self.bad: dict[tuple[int, int], Bad] = {}  # by base and channel
        self.reads = 0
        self.bytes_read = 0

    def groups(self) -> list[list[int]]:
        """Numbers of the plans that read the same planes: same dataset, same channels."""
        groups: dict[tuple[int, tuple[str, ...]], list[int]] = {}
        for number, plan in enumerate(self._plans):
            groups.setdefault((id(plan.source), plan.channels), []).append(number)
        return list(groups.values())

    def fill(self, group: list[int]) -> None:
        """Reads the rows of a group, each once, and puts them where its bases want them."""
        import torch

        plan = self._plans[group[0]]
        rows = np.unique(np.concatenate([self._plans[n].positions for n in group]))
        row_bytes = len(plan.channels) * plan.source.lat.size * plan.source.lon.size * 4
        block = max(1, _READ_BYTES // row_bytes)
        if len(group) == 1 and block >= rows.size and np.array_equal(rows, plan.positions):
            self.bases[group[0]] = torch.from_numpy(self._read(group[0], rows))
            return
        for number in group:
            shape = (self._plans[number].layout.base_rows, len(plan.channels))
            self.bases[number] = torch.empty(
                (*shape, plan.source.lat.size, plan.source.lon.size), dtype=torch.float32
            )
        for first in range(0, rows.size, block):
            part = rows[first : first + block]
            planes = torch.from_numpy(self._read(group[0], part))
            for number in group:
                self._place(self.bases[number], self._plans[number].positions, part, planes)

    def _place(
        self,
        base: torch.Tensor,
        positions: NDArray[np.int64],
        rows: NDArray[np.int64],
        planes: torch.Tensor,
    ) -> None:
        at = np.minimum(np.searchsorted(rows, positions), rows.size - 1)
        for slot in np.flatnonzero(rows[at] == positions).tolist():
            base[slot].copy_(planes[at[slot]])

    def _read(self, number: int, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        plan = self._plans[number]
        # Prepared in place, but a replaced reader may return any layout, or read-only memory.
        planes = np.require(plan.source.read(rows, plan.channels), np.float32, ["C", "W"])
        self.reads += 1
        self.bytes_read += planes.nbytes
        for row, channel, values in self._reader.preparation(self._shard, plan).apply(planes):
            self._note(number, channel, int(rows[row]), values)
        return planes

    def _note(self, number: int, channel: int, position: int, values: BadValues) -> None:
        """Counts a bad plane; they come with ascending positions."""
        known = self.bad.get((number, channel))
        self.bad[number, channel] = (
            Bad(base=number, channel=channel, count=values.count, position=position, plane=values)
            if known is None
            else replace(known, count=known.count + values.count)
        )


def _reader(shards: tuple[TrainingShard, ...], writable: bool) -> BatchReader:
    return BatchReader(shards, writable=writable)
