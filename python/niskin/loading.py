"""What every loader does alike: the schedule, one live iterator, refusals, statistics.

A loader subclasses `Loader` and gives `_start`; its iterator subclasses `BatchIterator` and gives
`_take` (wait for one batch) and `_shut` (free threads, processes and buffers). Everything else is
here: the schedule is a snapshot taken when iteration starts; a new iterator ends the older one; a
failure, the end, `close` and garbage collection all shut the iterator exactly once; in-place writes
to the batch that is being left are reported (never from a destructor); a loader that reached a
forked process or a `DataLoader` worker is refused.
"""

from __future__ import annotations

import os
import sys
import weakref
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from niskin.bases import BasePlan
from niskin.batch import Batch, BatchContext
from niskin.batch_iterator import BatchIterator, LoaderStats, Schedule, SizedBatches
from niskin.deadline import DEADLINE_S, Deadline
from niskin.errors import UsageError
from niskin.indexing import can_share
from niskin.shard import TrainingShard

if TYPE_CHECKING:
    import torch

__all__ = [
    "BatchIterator",
    "Loader",
    "LoaderStats",
    "Schedule",
    "SizedBatches",
    "assemble",
    "checked_device",
]


class Loader(ABC):
    """An iterable of batches. Raises UsageError for no shards, TypeError for an unfit sampler."""

    def __init__(
        self, shards: Iterable[TrainingShard], sampler: SizedBatches, *, writable: bool = False
    ) -> None:
        self.shards = tuple(shards)
        self.sampler = sampler
        self.writable = bool(writable)
        if not self.shards:
            raise UsageError(f"{type(self).__name__}: shards: got none, expected at least one")
        if not (hasattr(sampler, "__iter__") and hasattr(sampler, "__len__")):
            raise TypeError(
                f"{type(self).__name__}: sampler: got {type(sampler).__name__}, expected "
                "an iterable of index lists that has a length"
            )
        self.counts = LoaderStats()
        self._process = os.getpid()
        self._live: weakref.ref[BatchIterator] | None = None
        self._closed = False

    @abstractmethod
    def _start(self, schedule: Schedule) -> BatchIterator:
        """An iterator over `schedule`."""

    @abstractmethod
    def _release(self, deadline_s: float) -> None:
        """Frees what outlives an iterator; called by `close`, once or more often."""

    def __iter__(self) -> BatchIterator:
        """A new pass over the sampler's current schedule; an older iterator ends."""
        self.check_process()
        if self._closed:
            raise UsageError(
                f"{type(self).__name__}: got iter() after close(), expected a new loader"
            )
        self._end_live(check=True)
        iterator = self._start(self._snapshot())
        self._live = weakref.ref(iterator)
        return iterator

    def __len__(self) -> int:
        """Number of batches of a pass."""
        return len(self.sampler)

    def __repr__(self) -> str:
        shards = [str(shard.id) for shard in self.shards[:3]]
        names = ", ".join(shards if len(self.shards) <= 3 else [*shards, "…"])
        state = ", closed" if self._closed else ""
        return f"{type(self).__name__}([{names}], {len(self)} batches{state})"

    def set_epoch(self, epoch: int) -> None:
        """Tells the sampler, if it listens, the epoch of the next pass; not of a running one."""
        listener = getattr(self.sampler, "set_epoch", None)
        if listener is not None:
            listener(epoch)

    def stats(self) -> dict[str, Any]:
        """Totals since the loader was made: the fields of `LoaderStats`, and the loader's own."""
        return asdict(self.counts)

    def close(self, deadline_s: float = DEADLINE_S) -> None:
        """Ends the live iterator and frees everything; a second call does nothing.

        Waits at most `deadline_s` for a read that hangs, then leaves it behind with the memory it
        owns. Raises UsageError if the last batch was written to, and for a deadline that is not 0
        or more. What is delivered already stays valid.
        """
        self._close(check=True, deadline=Deadline(deadline_s))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._close(check=error is None, deadline=Deadline())  # never hides the block's error

    def __getitem__(self, index: object) -> Batch:
        raise UsageError(_NOT_A_DATASET.format(type(self).__name__))

    def __reduce__(self) -> tuple[Any, ...]:
        raise UsageError(_NOT_A_DATASET.format(type(self).__name__))

    def check_process(self) -> None:
        """Raises UsageError in a process forked from the loader's, and in a DataLoader worker."""
        torch_data = sys.modules.get("torch.utils.data")
        if torch_data is not None and torch_data.get_worker_info() is not None:
            raise UsageError(_NOT_A_DATASET.format(type(self).__name__))
        if os.getpid() != self._process:
            raise UsageError(
                f"{type(self).__name__}: used after fork: got process {os.getpid()}, expected "
                f"{self._process}\n  hint:  make the loader in the process that uses it"
            )

    def _close(self, *, check: bool, deadline: Deadline) -> None:
        self._closed = True
        try:
            self._end_live(check=check, deadline_s=deadline.left_s())
        finally:
            self._release(deadline.left_s())

    def _end_live(self, *, check: bool, deadline_s: float = DEADLINE_S) -> None:
        live = None if self._live is None else self._live()
        self._live = None
        if live is not None:
            live.end(check=check, deadline_s=deadline_s)

    def batches(self) -> tuple[tuple[int, ...], ...]:
        """What the sampler's current schedule is. Raises UsageError unless it is index lists."""
        try:
            return tuple(tuple(batch) for batch in self.sampler)
        except TypeError as error:
            raise UsageError(
                f"{type(self).__name__}: sampler: got {error}, expected lists of sample indices"
            ) from error

    def _snapshot(self) -> Schedule:
        batches = self.batches()
        flags = getattr(self.sampler, "padded", None)
        padded = tuple(flags()) if callable(flags) else (False,) * len(batches)
        if len(padded) != len(batches):
            raise UsageError(
                f"{type(self).__name__}: sampler: got {len(padded)} flags from padded(), "
                f"expected {len(batches)}"
            )
        shared = not self.writable and can_share(self.shards, batches)
        return Schedule(batches=batches, padded=padded, shared=shared)


def checked_device(
    loader: str, device: torch.device | str, pin_memory: bool | None
) -> tuple[torch.device, bool]:
    """Where `loader` delivers, and whether its host memory is page-locked (None: for a GPU).

    Raises UsageError for a device or pinning that this machine lacks.
    """
    import torch

    found = torch.device(device)
    pin = found.type == "cuda" if pin_memory is None else bool(pin_memory)
    if (pin or found.type == "cuda") and not torch.cuda.is_available():
        raise UsageError(
            f"{loader}: got device={str(device)!r}, pin_memory={pin_memory}, expected a CUDA device"
        )
    return found, pin


def assemble(
    shard: TrainingShard,
    local_indices: NDArray[np.int64],
    plans: Sequence[BasePlan],
    bases: Sequence[Any],
    *,
    indices: Sequence[int],
    padded: bool,
    load_s: float,
    context: BatchContext,
    writable: bool = False,
) -> Batch:
    """The batch of samples `local_indices` of `shard` from its filled bases.

    `indices`: the same samples as the sampler numbered them; `load_s`: seconds the bases took.
    """
    return Batch(
        indices=np.asarray(indices, dtype=np.int64),
        times=shard.source.time[shard.positions(local_indices)],
        valid=np.full(len(indices), not padded),
        stats={"load_s": load_s},
        context=context,
        bases=bases,
        plans=plans,
        hist=shard.hist,
        steps=shard.steps,
        writable=writable,
    )


_NOT_A_DATASET = (
    "{0}: got used as the dataset of a DataLoader or sent to another process, expected iteration "
    "in the process that made it: it reads ahead by itself, and its threads cannot travel\n"
    "  hint:  for batch in loader: …"
)
