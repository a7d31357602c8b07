"""NativeLoader: batches filled by the C++ core, read ahead within a bound of batches and bytes.

    with niskin.NativeLoader([shard], sampler) as loader:
        for batch in loader:
            for step in batch: ...

Every chunk that a batch needs is read and decoded once and leaves the core's cache as finished
floats, in the memory of the batch. That memory goes back to the pool when the last tensor that
views it dies: batches may be kept as long as you like.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from niskin import _core
from niskin.bad_value_policy import BadValuePolicy, found_by_core
from niskin.bases import BasePlan
from niskin.batch import Batch, make_context
from niskin.deadline import DEADLINE_S
from niskin.errors import UsageError, address
from niskin.field_sets import FieldSets
from niskin.indexing import resolve
from niskin.loading import (
    BatchIterator,
    Loader,
    Schedule,
    SizedBatches,
    assemble,
    checked_device,
)
from niskin.pool import Pool, at_least_one, shared_pool
from niskin.shard import TrainingShard

if TYPE_CHECKING:
    import torch

__all__ = ["NativeLoader", "NumpyLoader", "numpy_batches"]

_WORK = ("reads", "bytes_read", "decodes", "chunks", "absent_chunks")
_WORK_S = ("read_s", "decode_s", "token_wait_s")


class NativeLoader(Loader):
    """Batches through the C++ core; see `Loader` for what loaders share.

    `device`: where batches are delivered. `prefetch_batches`: batches in the making beside the
    one in use, fewer where the pool's memory limit asks for it. `pin_memory`: page-locked host
    memory; default: when the device is a GPU. `writable`: memory of its own for every tensor.
    `pool`: threads and memory to share; default: the one of this process. `max_concurrent_reads`,
    `decode_threads` and `memory_limit` instead of `pool` make a pool of the loader's own, closed
    with it.

    Raises UsageError for no shards, options out of range, a memory limit below one batch, and a
    device that this machine lacks; FormatError and StoreError for stores that the core cannot read;
    TypeError for a sampler that is not a sized iterable.
    """

    def __init__(
        self,
        shards: Iterable[TrainingShard],
        sampler: SizedBatches,
        *,
        device: torch.device | str = "cpu",
        prefetch_batches: int = 2,
        pin_memory: bool | None = None,
        writable: bool = False,
        pool: Pool | None = None,
        max_concurrent_reads: int | None = None,
        decode_threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        super().__init__(shards, sampler, writable=writable)
        self.prefetch_batches = at_least_one("prefetch_batches", prefetch_batches)
        self._set_device(device, pin_memory)
        own = {
            "max_concurrent_reads": max_concurrent_reads,
            "decode_threads": decode_threads,
            "memory_limit": memory_limit,
        }
        given = {name: value for name, value in own.items() if value is not None}
        if pool is not None and given:
            raise UsageError(
                f"NativeLoader: got pool and {', '.join(given)}, expected one or the other"
            )
        self._owns_pool = bool(given)
        self.pool = Pool(**given) if given else (shared_pool() if pool is None else pool)
        self.field_sets = FieldSets()
        self._work: dict[str, float] = dict.fromkeys(_WORK, 0) | dict.fromkeys(_WORK_S, 0.0)
        self._said_held = False
        try:
            self._admit()
        except BaseException:
            self._release(DEADLINE_S)
            raise

    def _set_device(self, device: torch.device | str, pin_memory: bool | None) -> None:
        self._device, self._pin = checked_device("NativeLoader", device, pin_memory)

    def _admit(self) -> None:
        """Opens every store, and holds the largest batch against the memory limit."""
        batch_size = getattr(self.sampler, "batch_size", None)
        if not isinstance(batch_size, int):
            batch_size = max(map(len, self.batches()), default=1)
        largest = 0
        for shard in self.shards:
            size = min(max(batch_size, 1), len(shard))
            plans = shard.bases(np.zeros(1, np.int64), writable=self.writable)
            sets = [self.field_sets.of(shard, plan) for plan in plans]
            rows = (plan.layout.base_rows * size for plan in plans)
            largest = max(largest, sum(n * s.row_bytes for n, s in zip(rows, sets, strict=True)))
        self.pool.admit(largest)
        room = (self.pool.memory_limit - self.pool.core.read_buffer_bytes) // max(largest, 1)
        if room < self.prefetch_batches:
            warnings.warn(
                f"NativeLoader: prefetch_batches: got {self.prefetch_batches}, but memory_limit "
                f"{self.pool.memory_limit} has room for {room} of {largest} bytes: prefetch "
                "shrinks",
                stacklevel=3,
            )

    def stats(self) -> dict[str, Any]:
        """`LoaderStats`, and the core's work for delivered batches.

        `reads` and `bytes_read` of stored ranges, `decodes`, `chunks` (`absent_chunks` of these),
        `read_s`, `decode_s` and `token_wait_s` summed over threads, and under `pool` its `stats`.
        """
        return super().stats() | self._work | {"pool": self.pool.stats()}

    def _start(self, schedule: Schedule) -> BatchIterator:
        return _Stream(self, schedule)

    def _release(self, deadline_s: float) -> None:
        if self._owns_pool:
            self.pool.close(deadline_s)

    def deliver(self, memory: _core.BaseMemory) -> Any:
        """A base as the kind of array that this loader hands out, without a copy."""
        import torch
        from torch.utils.dlpack import from_dlpack

        with torch.inference_mode(False):
            return from_dlpack(memory)

    def place(self, batch: Batch) -> Batch:
        """The batch where the user wants it."""
        if self._pin:
            batch = batch.pin_memory()
        return batch.to(self._device, non_blocking=self._pin)

    def context_device(self) -> str | None:
        """Where contexts are made; None for NumPy arrays."""
        return "cpu"

    def count_work(self, work: dict[str, Any]) -> None:
        """Adds the work of a batch; says once when batches held by the user pass the limit."""
        for name in self._work:
            self._work[name] += work[name]
        if self._said_held:
            return
        pool = self.pool.core.counts()
        held = pool["slab_bytes_delivered"]
        if held > self.pool.memory_limit:
            self._said_held = True
            warnings.warn(
                f"NativeLoader: batches that are still referenced hold {held} bytes, beside a "
                f"memory_limit of {self.pool.memory_limit} bytes, which does not count them",
                stacklevel=5,
            )


class NumpyLoader(NativeLoader):
    """The same batches as read-only NumPy arrays; needs no torch. See `numpy_batches`."""

    def _set_device(self, device: torch.device | str, pin_memory: bool | None) -> None:
        if str(device) != "cpu" or pin_memory:
            raise UsageError(
                f"numpy_batches: got device={str(device)!r}, pin_memory={pin_memory}, "
                "expected host memory"
            )

    def deliver(self, memory: _core.BaseMemory) -> Any:
        """The base as an array, read-only unless `writable`."""
        return memory.writable_array() if self.writable else np.from_dlpack(memory)

    def place(self, batch: Batch) -> Batch:
        """The batch itself."""
        return batch

    def context_device(self) -> str | None:
        """None: NumPy arrays."""
        return None


def numpy_batches(
    shards: Iterable[TrainingShard], sampler: SizedBatches, **options: Any
) -> NumpyLoader:
    """A loader of the same batches as `NativeLoader`, as read-only NumPy arrays, without torch.

    `options`: those of `NativeLoader` less `device` and `pin_memory`. Raises what it raises.
    """
    return NumpyLoader(shards, sampler, **options)


class _Stream(BatchIterator):
    """One pass: submits what the next batches need, takes finished ones in order."""

    def __init__(self, loader: NativeLoader, schedule: Schedule) -> None:
        super().__init__(loader, schedule)
        self._owner = loader
        self._policy = BadValuePolicy()
        self._submitted = 0
        self._plans: dict[int, tuple[TrainingShard, Any, tuple[BasePlan, ...]]] = {}
        self._waiting: tuple[int, list[tuple[_core.FieldSet, Any]]] | None = None
        self._failed: tuple[int, Exception] | None = None  # of a batch that could not be planned
        self._core = _core.BatchStream(loader.pool.core, loader.prefetch_batches)
        # Also when the iterator is never closed and dies in a cycle.
        self._finalizer = weakref.finalize(self, self._core.close, DEADLINE_S)
        self._finalizer.atexit = False  # the pool closes then
        self._fill()

    def _fill(self) -> None:
        """Submits batches as long as ring and memory admit them."""
        while self._submitted < len(self.schedule) and self._failed is None:
            number = self._submitted
            try:
                needs = self._needs(number)
                if not self._core.submit(needs):
                    return
            except Exception as error:
                self._plans.pop(number, None)
                self._failed = (number, error)
                return
            self._waiting = None
            self._submitted += 1

    def _needs(self, number: int) -> list[tuple[_core.FieldSet, Any]]:
        """What the core reads for a batch; kept until the memory limit admits it."""
        if self._waiting is not None and self._waiting[0] == number:
            return self._waiting[1]
        shard, local = resolve(self._owner.shards, self.schedule.batches[number])
        plans = shard.bases(local, shared=self.schedule.shared, writable=self._owner.writable)
        needs = [
            (self._owner.field_sets.of(shard, plan), plan.source.rows[plan.positions])
            for plan in plans
        ]
        self._plans[number] = (shard, local, plans)
        self._waiting = (number, needs)
        return needs

    def _take(self, number: int) -> Batch:
        self._fill()
        if self._failed is not None and self._failed[0] == number:
            raise self._failed[1]
        finished = self._core.next()
        self._fill()
        shard, local, plans = self._plans.pop(number)
        self._report(finished, plans)
        work = finished.work
        self._owner.count_work(work)
        owner = self._owner
        batch = assemble(
            shard, local, plans, [owner.deliver(base) for base in finished.bases],
            indices=self.schedule.batches[number], padded=self.schedule.padded[number],
            load_s=work["read_s"] + work["decode_s"],
            context=make_context(shard, owner.context_device()), writable=owner.writable,
        )  # fmt: skip
        batch.stats.update(work)
        return owner.place(batch)

    def _report(self, finished: _core.FinishedBatch, plans: tuple[BasePlan, ...]) -> None:
        for store, array, key, count in finished.missing_chunks:
            more = f", and {count - 1} more" if count > 1 else ""
            what = f"{array}: chunk {key} is absent{more}; read as fill"
            warnings.warn(address(what, store=store), stacklevel=4)
        bad = found_by_core(plans, finished.bad_values)
        self._owner.counts.bad_values += sum(found.count for found in bad)
        self._policy.note(bad)

    def _shut(self, deadline_s: float) -> None:
        if self._finalizer.detach():
            self._core.close(deadline_s)
