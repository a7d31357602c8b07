"""BatchIterator: one pass of a loader over a schedule, whoever fills the batches."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, Self

from niskin.bases import unique_bytes
from niskin.batch import Batch
from niskin.deadline import DEADLINE_S, Deadline
from niskin.errors import UsageError

if TYPE_CHECKING:
    from niskin.loading import Loader

__all__ = ["BatchIterator", "LoaderStats", "Schedule", "SizedBatches"]


class SizedBatches(Protocol):
    """A sampler: a sized iterable of lists of global sample indices.

    If it has `set_epoch(epoch)` or `padded()` (a flag for each batch: it only fills up the last
    step), loaders use them.
    """

    def __len__(self) -> int:
        """Number of batches."""

    def __iter__(self) -> Any:
        """Lists of indices, one for each batch."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Schedule:
    """The batches of one pass, as they were when it started."""

    batches: tuple[tuple[int, ...], ...]
    padded: tuple[bool, ...]
    shared: bool  # overlapping windows share memory, in every batch or in none

    def __len__(self) -> int:
        return len(self.batches)


@dataclass(kw_only=True, slots=True)
class LoaderStats:
    """What a loader has delivered since it was made."""

    batches: int = 0
    samples: int = 0
    bytes_delivered: int = 0  # every tensor of every step
    bytes_unique: int = 0  # each (row, channel) plane of a batch once
    wait_s: float = 0.0  # the consumer's time in next()
    bad_values: int = 0  # NaN and infinities in wet cells


class BatchIterator(ABC):
    """One pass of a loader over a schedule, in order; for one thread at a time."""

    def __init__(self, loader: Loader, schedule: Schedule) -> None:
        self.loader = loader
        self.schedule = schedule
        self._next = 0
        self._in_next = threading.Lock()
        self._last: Batch | None = None
        self._ended = False

    @abstractmethod
    def _take(self, number: int) -> Batch:
        """Waits for batch `number` of the schedule (0, 1, 2 … in turn); raises its error."""

    @abstractmethod
    def _shut(self, deadline_s: float) -> None:
        """Frees threads, processes and buffers. Called once, perhaps from a destructor.

        What hangs in a read after `deadline_s` is left behind, where that is possible.
        """

    def __iter__(self) -> Self:
        return self

    def __len__(self) -> int:
        """Batches still to come."""
        return 0 if self._ended else len(self.schedule) - self._next

    def __next__(self) -> Batch:
        if self._ended:
            raise StopIteration
        self.loader.check_process()
        if not self._in_next.acquire(blocking=False):
            raise UsageError(
                f"{type(self.loader).__name__}: got next() while another one waits, expected one "
                "thread at a time\n  hint:  take batches in one thread and hand them to others"
            )
        try:
            return self._advance()
        finally:
            self._in_next.release()

    def _advance(self) -> Batch:
        self._leave_last()
        if self._next == len(self.schedule):
            self.end()
            raise StopIteration
        start = time.perf_counter()
        try:
            batch = self._take(self._next)
        except BaseException:
            self.end(check=False)
            raise
        wait_s = time.perf_counter() - start
        self._next += 1
        self._count(batch, wait_s)
        self._last = batch
        return batch

    def close(self, deadline_s: float = DEADLINE_S) -> None:
        """Ends the pass early; see `Loader.close`."""
        self.end(deadline_s=Deadline(deadline_s).left_s())

    def end(self, *, check: bool = True, deadline_s: float = DEADLINE_S) -> None:
        """Shuts the iterator, then `check`s the last batch for writes; idempotent."""
        if self._ended:
            return
        self._ended = True
        self._shut(deadline_s)
        last, self._last = self._last, None
        if check and last is not None:
            last.check_unwritten()

    def __del__(self) -> None:
        if not getattr(self, "_ended", True):
            self.end(check=False)

    def _leave_last(self) -> None:
        """Reports writes to the batch that is being left; drops it before the next is awaited."""
        last, self._last = self._last, None
        if last is None:
            return
        try:
            last.check_unwritten()
        except UsageError:
            self.end(check=False)
            raise

    def _count(self, batch: Batch, wait_s: float) -> None:
        batch.stats["wait_s"] = wait_s
        counts = self.loader.counts
        counts.batches += 1
        counts.samples += len(batch.indices)
        counts.bytes_delivered += batch.bytes_delivered
        counts.bytes_unique += unique_bytes(batch.plans)  # type: ignore[arg-type]
        counts.wait_s += wait_s
