"""One competitor in a process of its own: `python -m bench.run_python JOB.json`, JSON on stdout."""

from __future__ import annotations

import dataclasses
import json
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Protocol

from bench import process
from bench.checksum import checksum
from bench.scenarios import Scenario

__all__ = ["describe", "main"]


class Competitor(Protocol):
    """Delivers finished batches."""

    def epoch(self, schedule: Sequence[list[int]]) -> Iterator[Sequence[Any]]:
        """The bases of each batch: float32 (row, channel, ny, nx), valid until the next one."""

    def facts(self) -> dict[str, Any]:
        """What else to report."""

    def close(self) -> None:
        """Frees everything."""


def make(name: str, shard: Any) -> Competitor:
    if name == "native":
        from bench.native import Native

        return Native(shard)
    if name == "zarr-python":
        from bench.zarr_python import ZarrPython

        return ZarrPython(shard)
    from bench.cpu import Cpu

    return Cpu(shard, num_workers=int(name.removeprefix("cpu-")))


def describe(scenario: Scenario) -> dict[str, Any]:
    """A scenario as JSON."""
    return dataclasses.asdict(scenario)


def touch(bases: Sequence[Any]) -> None:
    for base in bases:
        float(base[0, 0, 0, 0])


def timed(competitor: Competitor, schedule: Sequence[list[int]]) -> dict[str, Any]:
    """Every second from asking for the first batch to having the last one."""
    waits = []
    processor_s, own_s = process.processor_s(), time.thread_time()
    begin = last = time.perf_counter()
    for bases in competitor.epoch(schedule):
        touch(bases)
        del bases
        now = time.perf_counter()
        waits.append(now - last)
        last = now
    return {
        "seconds": waits,
        "total_s": last - begin,
        "processor_s": process.processor_s() - processor_s,
        "consumer_thread_s": time.thread_time() - own_s,
    }


def main(path: str) -> None:
    """Runs the job and prints its result."""
    job = json.loads(Path(path).read_text())
    warnings.simplefilter("ignore")
    scenario = Scenario(**job["scenario"])
    shard = scenario.shard(Path(job["stores"]))
    schedule = scenario.schedule(shard, job["warm"] + job["timed"])
    competitor = make(job["competitor"], shard)
    result: dict[str, Any]
    if job["check"]:
        result = {"checksums": [checksum(bases) for bases in competitor.epoch(schedule)]}
    else:
        before = process.resident_bytes()
        process.forget_peak()
        warm = timed(competitor, schedule[: job["warm"]])
        result = timed(competitor, schedule[job["warm"] :])
        result["first_batch_s"] = warm["seconds"][0]
        result["peak_growth_bytes"] = process.peak_bytes() - before
    result |= competitor.facts()
    competitor.close()
    json.dump(result, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
