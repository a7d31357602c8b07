"""CpuLoader: the batches of the native loader through xarray and torch's DataLoader.

The oracle of the parity tests and the opt-out path: same surface, same batches bit for bit.

    with CpuLoader([shard], sampler, num_workers=4) as loader:
        for batch in loader: ...

With `num_workers=0` a batch is read in `next()`. Otherwise whole batches are read ahead in worker
processes started by forkserver (or spawn), never by fork. Their random generators are seeded from
`worker_seed`; no process-wide generator is read or advanced. On close, workers finish the read they
are in.
"""

from __future__ import annotations

import multiprocessing
import operator
import pickle
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from niskin.bad_value_policy import BadValuePolicy
from niskin.batch import Batch, make_context
from niskin.batch_reader import BatchReader, Loaded
from niskin.errors import UsageError
from niskin.indexing import resolve
from niskin.loading import (
    BatchIterator,
    Loader,
    Schedule,
    SizedBatches,
    assemble,
    checked_device,
)
from niskin.shard import TrainingShard

if TYPE_CHECKING:
    import torch
    from torch.utils.data import DataLoader, Dataset

__all__ = ["CpuLoader"]

Item = tuple[tuple[int, ...], bool]  # sample indices, shared


class CpuLoader(Loader):
    """Batches through xarray. One live iterator at a time; see `Loader` for what loaders share.

    `num_workers`: processes that read ahead, two batches each; 0 reads in the caller's thread.
    `device`: where batches are delivered. `pin_memory`: page-locked host memory; default: when the
    device is a GPU. `writable`: memory of its own for every tensor. `persistent_workers`: keep the
    processes from one pass to the next. `worker_seed`: seeds the workers' generators; by convention
    the run's seed + 2 * rank for training, and one more for validation. Worker processes end as
    torch ends them: the deadline of `close` does not bound that.

    Raises UsageError for no shards, a negative `num_workers`, and a device or pinning that this
    machine lacks; TypeError for a sampler that is not a sized iterable.
    """

    def __init__(
        self,
        shards: Iterable[TrainingShard],
        sampler: SizedBatches,
        *,
        num_workers: int = 0,
        device: torch.device | str = "cpu",
        pin_memory: bool | None = None,
        writable: bool = False,
        persistent_workers: bool = False,
        worker_seed: int = 0,
    ) -> None:
        import torch

        super().__init__(shards, sampler, writable=writable)
        self._num_workers = operator.index(num_workers)
        if self._num_workers < 0:
            raise UsageError(f"CpuLoader: num_workers: got {num_workers}, expected 0 or more")
        self._device, self._pin = checked_device("CpuLoader", device, pin_memory)
        self._persistent = bool(persistent_workers) and self._num_workers > 0
        self._generator = torch.Generator().manual_seed(operator.index(worker_seed))
        self._reader = BatchReader(self.shards, writable=self.writable)
        self._feed = _Feed()
        self._workers: DataLoader[Any] | None = None
        self._reads = 0
        self._bytes_read = 0

    def stats(self) -> dict[str, Any]:
        """`LoaderStats`, `reads` (calls of `read`) and `bytes_read` (planes these returned)."""
        return super().stats() | {"reads": self._reads, "bytes_read": self._bytes_read}

    def _start(self, schedule: Schedule) -> BatchIterator:
        if self._num_workers == 0 or not schedule.batches:
            return _InProcess(self, schedule)
        return _FromWorkers(self, schedule)

    def _release(self, deadline_s: float) -> None:
        self._workers = None

    def start_workers(self, schedule: Schedule) -> Iterator[Any]:
        """Sets the workers to a schedule; persistent ones leave an older schedule first."""
        from torch.utils.data import DataLoader

        if self._workers is None:
            methods = multiprocessing.get_all_start_methods()
            self._workers = DataLoader(
                cast("Dataset[Any]", _Requests(self._reader)),
                batch_size=None,
                sampler=self._feed,
                collate_fn=_as_it_is,
                num_workers=self._num_workers,
                multiprocessing_context="forkserver" if "forkserver" in methods else "spawn",
                persistent_workers=self._persistent,
                generator=self._generator,
            )
        self._feed.items = [(indices, schedule.shared) for indices in schedule.batches]
        return iter(self._workers)

    def drop_workers(self) -> None:
        """Lets the next pass start new processes, after one that died."""
        self._workers = None

    def finish(
        self, schedule: Schedule, number: int, loaded: Loaded, policy: BadValuePolicy
    ) -> Batch:
        """The delivered batch of filled bases, on the device. Raises FormatError by policy."""
        indices = schedule.batches[number]
        shard, local = resolve(self.shards, indices)
        plans = shard.bases(local, shared=schedule.shared, writable=self.writable)
        self._reads += loaded.reads
        self._bytes_read += loaded.bytes_read
        self.counts.bad_values += sum(bad.count for bad in loaded.bad)
        policy.note(bad.of(plans) for bad in loaded.bad)
        batch = assemble(
            shard, local, plans, loaded.bases, indices=indices, padded=schedule.padded[number],
            load_s=loaded.load_s, context=make_context(shard, "cpu"), writable=self.writable,
        )  # fmt: skip
        if self._pin:
            batch = batch.pin_memory()
        return batch.to(self._device, non_blocking=self._pin)


class _InProcess(BatchIterator):
    """Reads each batch when it is asked for."""

    def __init__(self, loader: CpuLoader, schedule: Schedule) -> None:
        super().__init__(loader, schedule)
        self._owner = loader
        self._policy = BadValuePolicy()

    def _take(self, number: int) -> Batch:
        indices = self.schedule.batches[number]
        loaded = self._owner._reader.read(indices, shared=self.schedule.shared)
        return self._owner.finish(self.schedule, number, loaded, self._policy)

    def _shut(self, deadline_s: float) -> None:
        pass


class _FromWorkers(BatchIterator):
    """Takes batches from worker processes."""

    def __init__(self, loader: CpuLoader, schedule: Schedule) -> None:
        super().__init__(loader, schedule)
        self._owner = loader
        self._policy = BadValuePolicy()
        self._source: Iterator[Any] | None = None
        self._source = loader.start_workers(schedule)

    def _take(self, number: int) -> Batch:
        assert self._source is not None
        try:
            loaded = next(self._source)
        except BaseException:
            self._owner.drop_workers()
            raise
        if isinstance(loaded, _Failure):
            raise loaded.error
        return self._owner.finish(self.schedule, number, loaded, self._policy)

    def _shut(self, deadline_s: float) -> None:
        self._source = None  # torch's iterator ends its workers, unless they are persistent


class _Feed:
    """The sampler of the inner DataLoader: the current schedule."""

    def __init__(self) -> None:
        self.items: list[Item] = []

    def __iter__(self) -> Iterator[Item]:
        return iter(self.items)

    def __len__(self) -> int:
        return len(self.items)


@dataclass(frozen=True)
class _Failure:
    """An error on its way from a worker."""

    error: Exception


class _Requests:
    """The dataset of the inner DataLoader: an index is a request for a whole batch."""

    def __init__(self, reader: BatchReader) -> None:
        self._reader = reader

    def __getitem__(self, item: Item) -> Loaded | _Failure:
        indices, shared = item
        try:
            return self._reader.read(indices, shared=shared)
        except Exception as error:
            return _Failure(_portable(error))


def _portable(error: Exception) -> Exception:
    """The error, or its text if it does not survive pickling; the traceback is a note."""
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))
    except Exception:
        error = RuntimeError(f"{type(error).__name__}: {error}")
    error.add_note(f"In a worker process of CpuLoader:\n{text}")
    return error


def _as_it_is(loaded: Any) -> Any:
    return loaded
