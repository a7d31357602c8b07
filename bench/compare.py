"""One scenario: answers first, then fresh processes in turn, and what that says."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from bench import floor
from bench.scenarios import Scenario
from bench.stores import read_through

__all__ = ["PEERS", "Bench", "Effort", "Result", "compare"]

Result = dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class Run:
    """Batches of one process: `warm` ones first, then the timed ones."""

    warm: int
    timed: int


# Warm batches fill the pool's slabs and start worker processes.
RUNS = {
    "floor": Run(warm=2, timed=8),
    "native": Run(warm=5, timed=8),
    "zarr-python": Run(warm=1, timed=2),
    "cpu-0": Run(warm=1, timed=2),
    "cpu-2": Run(warm=2, timed=2),
}
PEERS = ("zarr-python", "cpu-0", "cpu-2")


@dataclass(frozen=True, kw_only=True)
class Effort:
    """How often: `rounds` of native and floor, `peer_rounds` of those who are much slower."""

    rounds: int
    peer_rounds: int
    threads: int


class Bench:
    """Runs competitors on one scenario."""

    def __init__(
        self, scenario: Scenario, *, stores: Path, program: Path, folder: Path, threads: int
    ) -> None:
        self.scenario = scenario
        self._stores = stores
        self._program = program
        self._folder = folder
        self._threads = threads

    def answer(self, competitor: str) -> list[int]:
        """Checksums of the first batch."""
        result = self._run(competitor, Run(warm=0, timed=1), check=True)
        return [int(x) for x in result["checksums"]]

    def time(self, competitor: str) -> Result:
        """One run of a fresh process, from a page cache that holds the store."""
        read_through(self._stores / self.scenario.store)
        return self._run(competitor, RUNS[competitor], check=False)

    def _run(self, competitor: str, run: Run, *, check: bool) -> Result:
        if competitor == "floor":
            job = floor.write_job(
                self._folder, self.scenario, self._stores,
                warm=run.warm, timed=run.timed, check=check, threads=self._threads,
            )  # fmt: skip
            return floor.run(self._program, job)
        path = self._folder / f"{competitor}.json"
        request = {
            "scenario": asdict(self.scenario),
            "stores": str(self._stores),
            "competitor": competitor,
            "warm": run.warm,
            "timed": run.timed,
            "check": check,
        }
        path.write_text(json.dumps(request))
        done = subprocess.run(
            [sys.executable, "-m", "bench.run_python", str(path)],
            check=True,
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parent.parent,
        )
        result: Result = json.loads(done.stdout)
        return result


def compare(
    bench: Bench, effort: Effort, *, peers: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """The runs and their summary. Raises SystemExit if two competitors differ by one bit."""
    names = ["floor", "native", *peers]
    _check_answers({name: bench.answer(name) for name in names}, bench.scenario)
    say("answers equal")
    runs: dict[str, list[Result]] = {name: [] for name in names}
    load = os.getloadavg()[0]
    for number in range(effort.rounds):
        turn = names if number < effort.peer_rounds else names[:2]
        # Whoever goes second may find a warmer or a busier machine.
        for name in turn if number % 2 == 0 else [*reversed(turn[:2]), *turn[2:]]:
            say(f"round {number + 1} of {effort.rounds}: {name}")
            runs[name].append(bench.time(name))
    return {
        "scenario": asdict(bench.scenario),
        "load_before": load,
        "effort": asdict(effort),
        "runs": runs,
        "summary": summarize(bench, runs),
    }


def _check_answers(answers: Mapping[str, Sequence[int]], scenario: Scenario) -> None:
    for name, answer in answers.items():
        if answer != answers["floor"]:
            raise SystemExit(
                f"bench: {scenario.label}: {name}: got checksums {answer}, expected "
                f"{answers['floor']}, those of the floor: nothing is timed"
            )


def summarize(bench: Bench, runs: Mapping[str, Sequence[Result]]) -> dict[str, Any]:
    """Medians over runs; ratios within each round first, then their median."""
    unique, delivered = bytes_of(bench.scenario, bench._stores)

    def per_batch(run: Result) -> float:
        return float(run["total_s"]) / len(run["seconds"])

    found: dict[str, Any] = {"unique_bytes": unique, "delivered_bytes": delivered}
    for name, done in runs.items():
        seconds = median(per_batch(run) for run in done)
        ratios = [per_batch(a) / per_batch(b) for a, b in zip(done, runs["floor"], strict=False)]
        faster = [per_batch(a) / per_batch(b) for a, b in zip(done, runs["native"], strict=False)]
        waits = [wait for run in done for wait in run["seconds"]]
        own = {
            "batch_s": seconds,
            "batches_per_s": 1 / seconds,
            "unique_gb_per_s": unique / seconds / 1e9,
            "delivered_gb_per_s": delivered / seconds / 1e9,
            "times_floor": median(ratios),
            "times_floor_each": ratios,
            "times_native": median(faster),
            "wait_p50_s": median(waits),
            "wait_max_s": max(waits),
            "processor_s_per_gb": median(
                run["processor_s"] / len(run["seconds"]) for run in done
            ) / (unique / 1e9),
        }  # fmt: skip
        for key in ("first_batch_s", "peak_growth_bytes", "consumer_thread_s", "memory_limit"):
            values = [run[key] for run in done if key in run]
            if values:
                own[key] = max(values) if key == "peak_growth_bytes" else median(values)
        found[name] = own
    return found


def bytes_of(scenario: Scenario, stores: Path) -> tuple[float, float]:
    """Unique and delivered bytes of a batch, means over the batches that native delivers timed."""
    from niskin.bases import unique_bytes

    shard = scenario.shard(stores)
    run = RUNS["native"]
    schedule = scenario.schedule(shard, run.warm + run.timed)[run.warm :]
    plans = [shard.bases(batch) for batch in schedule]
    unique = sum(unique_bytes(bases) for bases in plans) / len(plans)
    plane = shard.source.lat.size * shard.source.lon.size * 4
    channels = 2 * len(shard.prognostic) + len(shard.boundary)
    return unique, scenario.batch * scenario.steps * (scenario.hist + 1) * channels * plane
