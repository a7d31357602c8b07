"""What an epoch cost and gave: loss, throughput and the share of time spent waiting for data."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from niskin.batch import Batch

__all__ = ["EpochMeter", "PhaseMetrics"]


@dataclass(frozen=True, kw_only=True)
class PhaseMetrics:
    """One pass over a loader. Times are wall-clock seconds, bytes those of every tensor seen."""

    loss: float
    batches: int
    samples: int
    delivered_bytes: int
    wait_s: float
    total_s: float

    @property
    def wait_share(self) -> float:
        """Share of the time that was spent in the loader's next()."""
        return self.wait_s / self.total_s if self.total_s else 0.0

    @property
    def samples_per_s(self) -> float:
        """Samples per second of wall-clock time."""
        return self.samples / self.total_s if self.total_s else 0.0

    @property
    def delivered_gb_per_s(self) -> float:
        """10**9 delivered bytes per second of wall-clock time."""
        return self.delivered_bytes / 1e9 / self.total_s if self.total_s else 0.0

    def as_dict(self) -> dict[str, float]:
        """Fields and rates, ready for JSON."""
        return asdict(self) | {
            "wait_share": self.wait_share,
            "samples_per_s": self.samples_per_s,
            "delivered_gb_per_s": self.delivered_gb_per_s,
        }


class EpochMeter:
    """Counts batches as they pass from a loader to the training step. Used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._began = clock()
        self._wait_s = 0.0
        self._batches = self._samples = self._bytes = 0

    def watch(self, batches: Iterable[Batch], limit: int | None = None) -> Iterator[Batch]:
        """Yields at most `limit` of the batches, timing each wait for the next one."""
        began = self._clock()
        iterator = iter(batches)
        self._wait_s += self._clock() - began
        while limit is None or self._batches < limit:
            began = self._clock()
            batch = next(iterator, None)
            self._wait_s += self._clock() - began
            if batch is None:
                return
            self._batches += 1
            self._samples += len(batch.indices)
            self._bytes += batch.bytes_delivered
            yield batch

    def result(self, loss: float) -> PhaseMetrics:
        """The counts so far, with the mean loss that the caller found."""
        return PhaseMetrics(
            loss=loss,
            batches=self._batches,
            samples=self._samples,
            delivered_bytes=self._bytes,
            wait_s=self._wait_s,
            total_s=self._clock() - self._began,
        )
