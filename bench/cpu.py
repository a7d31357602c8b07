"""CpuLoader: xarray, and torch's DataLoader where it has workers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from niskin.shard import TrainingShard

__all__ = ["Cpu"]


class Cpu:
    """Batches through xarray; workers, if any, are kept from epoch to epoch."""

    def __init__(self, shard: TrainingShard, num_workers: int) -> None:
        import niskin

        self._batches: list[list[int]] = []
        self._loader = niskin.CpuLoader(
            [shard], self._batches, num_workers=num_workers, persistent_workers=num_workers > 0
        )

    def epoch(self, schedule: Sequence[list[int]]) -> Iterator[Sequence[Any]]:
        """The bases of each batch in turn."""
        self._batches[:] = schedule
        for batch in self._loader:
            yield batch.bases

    def facts(self) -> dict[str, Any]:
        """None."""
        return {}

    def close(self) -> None:
        """Ends the loader."""
        self._loader.close()
