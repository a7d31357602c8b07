"""Batch samplers: which samples form a batch, and in which order, on one rank or on many.

The samples of all shards are numbered through, in the order of the shards. Shards with the same
key form a group, groups stand in the order in which keys are first seen, and no batch crosses
groups. All randomness is one `random.Random(seed + epoch)`: the order is a pure function of the
arguments and the epoch, and the process-wide generators are neither read nor advanced.

    sampler = BatchSampler([shard], batch_size=2, shuffle=True, drop_last=True, seed=15)
    sampler.set_epoch(1)
    for indices in sampler: ...
"""

from __future__ import annotations

import hashlib
import operator
import random
from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import chain
from typing import Any, Protocol, TypeVar

import numpy as np

from niskin.errors import UsageError

__all__ = ["BatchSampler", "DistributedBatchSampler", "Sampled"]


class Sampled(Protocol):
    """What a sampler needs of a shard."""

    @property
    def key(self) -> Hashable:
        """Shards whose samples may stand in one group have equal keys."""

    def __len__(self) -> int:
        """Number of samples."""


ShardT = TypeVar("ShardT", bound=Sampled)
GroupKey = Callable[[Any], Hashable]


class _GroupedSampler(ABC):
    """What both samplers share: groups, epoch, and the views of one schedule."""

    def __init__(
        self,
        shards: Sequence[ShardT],
        *,
        batch_size: int,
        shuffle: bool,
        drop_last: bool,
        seed: int,
        group_key: Callable[[ShardT], Hashable] | None,
    ) -> None:
        self._groups = _groups(shards, group_key)
        self._batch_size = _at_least(batch_size, 1, "batch_size")
        self._shuffle = bool(shuffle)
        self._drop_last = bool(drop_last)
        self._seed = operator.index(seed)
        self._epoch = 0

    @property
    def epoch(self) -> int:
        """The epoch that iteration follows; 0 until `set_epoch`."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Lets the next iteration follow `epoch`; one that runs already is not changed."""
        self._epoch = operator.index(epoch)

    def __iter__(self) -> Iterator[list[int]]:
        return iter(self.schedule())

    @abstractmethod
    def __len__(self) -> int:
        """Number of batches of this rank, the same in every epoch."""

    @abstractmethod
    def schedule(self, epoch: int | None = None) -> list[list[int]]:
        """This rank's batches of `epoch` (default: the current one), as lists of sample indices."""

    @abstractmethod
    def global_schedule(self, epoch: int | None = None) -> list[list[list[int]]]:
        """All ranks' batches: a list over steps of lists over ranks of sample indices."""

    @abstractmethod
    def padded(self, epoch: int | None = None) -> list[bool]:
        """For each batch of `schedule(epoch)`: whether it is there only to fill the last step."""

    def schedule_hash(self, epoch: int | None = None) -> str:
        """SHA-256 of `global_schedule(epoch)` in hexadecimal: the same on every rank.

        Hashed as little-endian int64: number of steps, number of ranks, the length of every batch,
        then every index.
        """
        steps = self.global_schedule(epoch)
        batches = list(chain.from_iterable(steps))
        head = [len(steps), len(steps[0]) if steps else 0, *map(len, batches)]
        digest = hashlib.sha256(np.asarray(head, dtype="<i8").tobytes())
        count = sum(map(len, batches))
        indices = np.fromiter(chain.from_iterable(batches), dtype="<i8", count=count)
        digest.update(indices.tobytes())
        return digest.hexdigest()

    def _random(self, epoch: int | None) -> random.Random:
        return random.Random(self._seed + (self._epoch if epoch is None else operator.index(epoch)))

    def _batch_count(self, samples: int) -> int:
        return samples // self._batch_size if self._drop_last else -(-samples // self._batch_size)

    def _cut(self, indices: Sequence[int]) -> list[list[int]]:
        size = self._batch_size
        stop = self._batch_count(len(indices)) * size
        return [list(indices[at : at + size]) for at in range(0, min(stop, len(indices)), size)]

    def _settings(self) -> str:
        samples = sum(map(len, self._groups))
        return (
            f"samples={samples}, batch_size={self._batch_size}, shuffle={self._shuffle}, "
            f"drop_last={self._drop_last}, seed={self._seed}, epoch={self._epoch}"
        )


class BatchSampler(_GroupedSampler):
    """Batches for a single process.

    The samples of each group are shuffled and cut into batches; then all batches are shuffled.
    With `drop_last` the samples that fill no batch are left out, other ones in every epoch.

    `group_key` replaces the key of a shard; keys must be hashable (TypeError). Raises UsageError
    for a batch size below 1 and for no shards.
    """

    def __init__(
        self,
        shards: Sequence[ShardT],
        *,
        batch_size: int,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        group_key: Callable[[ShardT], Hashable] | None = None,
    ) -> None:
        super().__init__(
            shards,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            seed=seed,
            group_key=group_key,
        )

    def __len__(self) -> int:
        return sum(self._batch_count(len(group)) for group in self._groups)

    def schedule(self, epoch: int | None = None) -> list[list[int]]:
        """The batches of `epoch` (default: the current one), as lists of sample indices."""
        generator = self._random(epoch)
        batches: list[list[int]] = []
        for group in self._groups:
            indices = list(group)
            if self._shuffle:
                generator.shuffle(indices)
            batches += self._cut(indices)
        if self._shuffle:
            generator.shuffle(batches)
        return batches

    def global_schedule(self, epoch: int | None = None) -> list[list[list[int]]]:
        """`schedule(epoch)` as steps of a single rank."""
        return [[batch] for batch in self.schedule(epoch)]

    def padded(self, epoch: int | None = None) -> list[bool]:
        """False for every batch: one process never pads."""
        return [False] * len(self)

    def __repr__(self) -> str:
        return f"BatchSampler({self._settings()})"


class DistributedBatchSampler(_GroupedSampler):
    """Batches for one rank of `world_size`; every rank computes the same global schedule.

    A batch holds neighbouring samples in their natural order. Steps of `world_size` batches, all
    of one group, are shuffled. A last step that is short is left out with `drop_last`, else filled
    up by repeating batches of its group (`padded`). So every rank takes the same number of steps,
    and at each step all ranks hold the same group.

    Raises UsageError for a world size below 1, a rank outside [0, world_size), a batch size below 1
    and for no shards; TypeError for keys that are not hashable.
    """

    def __init__(
        self,
        shards: Sequence[ShardT],
        *,
        batch_size: int,
        rank: int,
        world_size: int,
        shuffle: bool = False,
        drop_last: bool = False,
        seed: int = 0,
        group_key: Callable[[ShardT], Hashable] | None = None,
    ) -> None:
        super().__init__(
            shards,
            batch_size=batch_size,
            shuffle=shuffle,
            drop_last=drop_last,
            seed=seed,
            group_key=group_key,
        )
        self._world_size = _at_least(world_size, 1, "world_size")
        self._rank = operator.index(rank)
        if not 0 <= self._rank < self._world_size:
            raise UsageError(
                f"Invalid rank {self._rank}: expected 0 <= rank < world_size = {self._world_size}"
            )
        # Batches are numbered through; an epoch only changes the order of the numbers.
        self._batches: list[list[int]] = []
        self._batch_groups: list[range] = []
        for group in self._groups:
            first = len(self._batches)
            self._batches += self._cut(group)
            self._batch_groups.append(range(first, len(self._batches)))

    def __len__(self) -> int:
        n = self._world_size
        return sum(
            len(group) // n if self._drop_last else -(-len(group) // n)
            for group in self._batch_groups
        )

    def schedule(self, epoch: int | None = None) -> list[list[int]]:
        """This rank's batches of `epoch` (default: the current one), as lists of sample indices."""
        return [list(self._batches[numbers[self._rank]]) for numbers, _ in self._steps(epoch)]

    def global_schedule(self, epoch: int | None = None) -> list[list[list[int]]]:
        """All ranks' batches: a list over steps of lists over ranks of sample indices."""
        return [[list(self._batches[b]) for b in numbers] for numbers, _ in self._steps(epoch)]

    def padded(self, epoch: int | None = None) -> list[bool]:
        """For each batch of `schedule(epoch)`: whether it is there only to fill the last step."""
        return [self._rank >= real for _, real in self._steps(epoch)]

    def _steps(self, epoch: int | None) -> list[tuple[list[int], int]]:
        """Batch numbers by rank, and how many of them are no repetition, for every step."""
        generator = self._random(epoch)
        n = self._world_size
        steps: list[tuple[list[int], int]] = []
        for group in self._batch_groups:
            group_steps = [(list(group[at : at + n]), n) for at in range(0, len(group), n)]
            short = len(group) % n
            if short and self._drop_last:
                del group_steps[-1]
            elif short:
                pool = list(group)
                if self._shuffle:
                    generator.shuffle(pool)
                repeats = (pool[k % len(pool)] for k in range(n - short))
                group_steps[-1] = ([*group_steps[-1][0], *repeats], short)
            if self._shuffle:
                generator.shuffle(group_steps)
            steps += group_steps
        if self._shuffle:
            generator.shuffle(steps)
        return steps

    def __repr__(self) -> str:
        return (
            f"DistributedBatchSampler(rank={self._rank}, world_size={self._world_size}, "
            f"{self._settings()})"
        )


def _groups(
    shards: Sequence[ShardT], group_key: Callable[[ShardT], Hashable] | None
) -> list[Sequence[int]]:
    """Sample indices of each group, groups in the order in which their keys are first seen."""
    members: dict[Hashable, list[range]] = {}
    first = 0
    for shard in shards:
        key = shard.key if group_key is None else group_key(shard)
        try:
            group = members.setdefault(key, [])
        except TypeError:
            kind = type(key).__name__
            raise TypeError(f"group key {key!r}: got {kind}, expected a hashable value") from None
        group.append(range(first, first + len(shard)))
        first += len(shard)
    if not members:
        raise UsageError("shards: got none, expected at least one")
    return [parts[0] if len(parts) == 1 else list(chain(*parts)) for parts in members.values()]


def _at_least(value: int, least: int, name: str) -> int:
    number = operator.index(value)
    if number < least:
        raise UsageError(f"{name}: got {number}, expected at least {least}")
    return number
