"""NativeLoader as it comes: default pool, two batches ahead."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from niskin.shard import TrainingShard

__all__ = ["Native"]


class Native:
    """Batches of the C++ core."""

    def __init__(self, shard: TrainingShard, memory_limit: int | None = None) -> None:
        import niskin

        self._batches: list[list[int]] = [[0] * 8]
        self._loader = niskin.NativeLoader([shard], self._batches, memory_limit=memory_limit)

    def epoch(self, schedule: Sequence[list[int]]) -> Iterator[Sequence[Any]]:
        """The bases of each batch in turn."""
        self._batches[:] = schedule
        for batch in self._loader:
            yield batch.bases

    def facts(self) -> dict[str, Any]:
        """The pool's limit, and where the workers' time went."""
        stats = self._loader.stats()
        names = ("reads", "bytes_read", "decodes", "chunks", "read_s", "decode_s", "token_wait_s")
        return {
            "memory_limit": self._loader.pool.memory_limit,
            "decode_threads": self._loader.pool.decode_threads,
            "work": {name: stats[name] for name in names},
        }

    def close(self) -> None:
        """Ends the loader."""
        self._loader.close()
