"""From the numbers of a schedule to samples of shards.

Global indices number the samples of all shards of a loader through, in the order of the shards.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from niskin.errors import UsageError

if TYPE_CHECKING:
    from niskin.shard import TrainingShard

__all__ = ["as_indices", "can_share", "resolve"]


def resolve(
    shards: Sequence[TrainingShard], global_indices: ArrayLike
) -> tuple[TrainingShard, NDArray[np.int64]]:
    """The shard of a batch, and the indices in it: int64 (B,).

    Raises UsageError for an empty batch and for one that mixes shards (naming ids), IndexError
    outside the samples, TypeError unless indices are integers.
    """
    indices = as_indices(global_indices)
    low, high = int(indices.min()), int(indices.max())
    first = 0
    for shard in shards:
        if first <= low < first + len(shard):
            if high < first + len(shard):
                return shard, indices - first
            break
        first += len(shard)
    total = sum(map(len, shards))
    if low < 0 or high >= total:
        bad = low if low < 0 else high
        raise IndexError(f"sample index {bad} is out of range for {total} samples")
    ids = dict.fromkeys(str(_owner(shards, int(index)).id) for index in indices)
    raise UsageError(
        f"batch {indices.tolist()}: got samples of shards {' and '.join(map(repr, ids))}, "
        "expected one shard per batch"
    )


def can_share(shards: Sequence[TrainingShard], schedule: Sequence[Sequence[int]]) -> bool:
    """Whether all batches of a schedule of global indices may share overlapping windows.

    That is: the starts of every batch rise by one row, the flattened views stay views (stride 1 or
    no history), no row is held that is not needed, and some batch holds fewer rows than without. A
    batch that is in error makes it False.
    """
    sizes = np.fromiter(map(len, schedule), dtype=np.int64, count=len(schedule))
    if sizes.size == 0 or sizes.min() < 1 or sizes.max() < 2:
        return False
    indices = np.fromiter(
        itertools.chain.from_iterable(schedule), dtype=np.int64, count=int(sizes.sum())
    )
    ends = np.cumsum([len(shard) for shard in shards])
    if indices.min() < 0 or indices.max() >= ends[-1]:
        return False
    owners = np.searchsorted(ends, indices, side="right")
    starts = np.empty_like(indices)
    for number in np.unique(owners):
        shard, mine = shards[number], owners == number
        # With fewer samples than the stride, the shared rows would have holes nobody asked for.
        if not shard.flattens or (np.repeat(sizes, sizes)[mine] < shard.stride).any():
            return False
        starts[mine] = shard.starts(indices[mine] - (ends[number] - len(shard)))
    inside = np.ones(indices.size - 1, dtype=bool)
    inside[np.cumsum(sizes)[:-1] - 1] = False  # from one batch to the next
    same = (np.diff(starts) == 1) & (np.diff(owners) == 0)
    batch_strides = np.array([shard.stride for shard in shards])[owners[np.cumsum(sizes) - 1]]
    return bool(same[inside].all()) and bool((sizes > batch_strides).any())


def _owner(shards: Sequence[TrainingShard], index: int) -> TrainingShard:
    for shard in shards:
        if index < len(shard):
            return shard
        index -= len(shard)
    raise IndexError(index)


def as_indices(values: ArrayLike) -> NDArray[np.int64]:
    """Sample indices as int64 (B,): UsageError for none, TypeError unless a list of integers."""
    array = np.asarray(values)
    if array.size == 0:
        raise UsageError("batch: got no sample index, expected at least one")
    if array.ndim != 1 or array.dtype.kind not in "iu":
        raise TypeError(
            f"sample indices: got {array.dtype} of shape {array.shape}, expected a list of integers"
        )
    return array.astype(np.int64, copy=False)
