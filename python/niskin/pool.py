"""Pool: the threads and the memory that native loaders share."""

from __future__ import annotations

import atexit
import operator
import os
import weakref
from types import TracebackType
from typing import Any, Self

from niskin import _core, machine
from niskin.deadline import DEADLINE_S, Deadline
from niskin.errors import UsageError

__all__ = ["Pool", "at_least_one", "shared_pool"]


class Pool:
    """Worker threads that read and decode, and a bound on the memory they use.

    `max_concurrent_reads`: threads, and so reads that wait for the disk at once. `decode_threads`:
    how many of them compute at once; default: usable cores divided by local ranks. `memory_limit`
    (bytes): batches in the making, encoded bytes in flight and scratch together; default: a quarter
    of the memory allowed, divided by local ranks, and always room for two batches. Batches that the
    caller holds do not count against it. Threads start with the first batch.

    Raises UsageError for numbers below 1, and on use in a process forked from this one.
    """

    def __init__(
        self,
        max_concurrent_reads: int = 32,
        decode_threads: int | None = None,
        memory_limit: int | None = None,
    ) -> None:
        self.max_concurrent_reads = at_least_one("max_concurrent_reads", max_concurrent_reads)
        self.decode_threads = at_least_one(
            "decode_threads", machine.decode_threads() if decode_threads is None else decode_threads
        )
        self._limit_was_set = memory_limit is not None
        limit = machine.memory_limit() if memory_limit is None else memory_limit
        self.core = _core.Pool(
            max_concurrent_reads=self.max_concurrent_reads,
            decode_threads=self.decode_threads,
            memory_limit=at_least_one("memory_limit", limit, most=2**63 - 1),
        )
        self._process = os.getpid()
        self.closed = False
        # Before the core's destructor, which would wait with the GIL held.
        weakref.finalize(self, self.core.close, DEADLINE_S).atexit = False
        _alive.add(self)

    @property
    def memory_limit(self) -> int:
        """Bytes."""
        return self.core.memory_limit

    def admit(self, batch_bytes: int) -> None:
        """Makes sure that batches of `batch_bytes` fit: two of them under a default limit.

        Raises UsageError if the limit was set below one batch and its read buffers.
        """
        if not self._limit_was_set:
            self.core.raise_memory_limit(2 * batch_bytes + self.core.read_buffer_bytes)
            return
        need = batch_bytes + self.core.read_buffer_bytes
        if need > self.memory_limit:
            raise UsageError(
                f"memory_limit: got {self.memory_limit} bytes, expected at least {need}: one batch "
                f"is {batch_bytes} bytes and read buffers take {self.core.read_buffer_bytes}\n"
                "  hint:  a smaller batch_size or fewer steps, or a larger memory_limit"
            )

    def stats(self) -> dict[str, Any]:
        """Work done by all loaders on this pool, and memory held, in bytes and seconds."""
        return dict(self.core.counts())

    def close(self, deadline_s: float = DEADLINE_S) -> int:
        """Ends the threads; loaders on this pool then raise. Idempotent.

        Waits at most `deadline_s`. Returns how many threads hang in a read; they are left behind
        with the memory they own and clean up when the read returns.
        """
        deadline = Deadline(deadline_s)
        self.closed = True
        return int(self.core.close(deadline.left_s()))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return (
            f"Pool(max_concurrent_reads={self.max_concurrent_reads}, "
            f"decode_threads={self.decode_threads}, memory_limit={self.memory_limit})"
        )


_alive: weakref.WeakSet[Pool] = weakref.WeakSet()


@atexit.register
def _close_all() -> None:
    """First brings daemon threads out of the core, since the interpreter is about to end them."""
    _core.interpreter_is_ending(DEADLINE_S)
    for pool in list(_alive):
        pool.close()


_shared: Pool | None = None


def shared_pool() -> Pool:
    """The pool of this process, made on first use; a forked process makes its own."""
    global _shared
    if _shared is None or _shared.closed or _shared._process != os.getpid():
        _shared = Pool()
    return _shared


def at_least_one(name: str, value: int, *, most: int = 2**31 - 1) -> int:
    """`value` as an int. Raises UsageError naming the option unless it is whole, 1 … `most`."""
    try:
        number = operator.index(value)
    except TypeError:
        raise UsageError(f"{name}: got {value!r}, expected a whole number, at least 1") from None
    if number < 1:
        raise UsageError(f"{name}: got {number}, expected at least 1")
    if number > most:
        raise UsageError(f"{name}: got {number}, expected at most {most}")
    return number
