"""`python -m bench`: builds floor and stores, compares answers, measures, reports."""

from __future__ import annotations

import datetime as dt
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.status import Status

from bench import floor, machine, overheads, report, stores
from bench.compare import Bench, Effort, compare
from bench.scenarios import Scenario, chosen

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
RESULTS = ROOT / "bench" / "results"
DOCUMENT = ROOT / "docs" / "benchmarks.md"


def main(
    quick: Annotated[bool, typer.Option(help="Two small scenarios, two rounds.")] = False,
    full: Annotated[bool, typer.Option(help="Every scenario and competitor; an hour.")] = False,
    only: Annotated[str, typer.Option(help="Scenarios whose name contains this.")] = "",
    rows: Annotated[int, typer.Option(help="Length of the stores' record.")] = 120,
    rounds: Annotated[int, typer.Option(help="Runs of native and floor, in turn.")] = 5,
    docs: Annotated[bool, typer.Option(help="Write docs/benchmarks.md from the results.")] = False,
    report_only: Annotated[bool, typer.Option(help="Show the results that are there.")] = False,
) -> None:
    """Measures NativeLoader against the floor, CpuLoader and zarr-python.

    Results go to bench/results, stores to $NISKIN_BENCH_DIR or build/bench/stores.
    """
    console = Console()
    if not report_only:
        if quick:
            rounds = min(rounds, 2)
        scenarios = _scenarios(quick=quick, full=full, only=only, rows=rows)
        _measure(scenarios, console, rounds=rounds, quick=quick, full=full)
    results = report.load(RESULTS)
    if not results:
        raise SystemExit(f"bench: no results in {RESULTS}")
    report.show(results, console)
    if docs:
        DOCUMENT.write_text(report.document(results))
        console.print(f"written: {DOCUMENT.relative_to(ROOT)}")


def _scenarios(*, quick: bool, full: bool, only: str, rows: int) -> Sequence[Scenario]:
    if quick:
        return [
            Scenario(layout=layout, codec="lz4", batch=2, steps=4, rows=60)
            for layout in ("flat", "compact")
        ]
    found = [scenario for scenario in chosen(rows=rows, full=full) if only in scenario.name]
    if not found:
        raise SystemExit(f"bench: --only {only}: no such scenario")
    return found


def _measure(
    scenarios: Sequence[Scenario], console: Console, *, rounds: int, quick: bool, full: bool
) -> None:
    program = floor.build(ROOT, BUILD)
    folder = stores.folder(BUILD)
    stores.build_missing(folder, scenarios, console)
    RESULTS.mkdir(exist_ok=True)
    threads = len(os.sched_getaffinity(0))
    effort = Effort(rounds=rounds, peer_rounds=3 if full else min(rounds, 2), threads=threads)
    facts = {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H%MZ"),
        "commit": machine.commit(ROOT),
        "machine": machine.describe(),
    }
    with tempfile.TemporaryDirectory(prefix="niskin-bench-") as scratch:
        for scenario in scenarios:
            bench = Bench(
                scenario, stores=folder, program=program, folder=Path(scratch), threads=threads
            )
            peers = full or quick or (scenario.steps == 4 and scenario.codec == "lz4")
            peers = peers and (full or scenario.prognostic == "thermo_dynamic_all")
            with console.status(scenario.label) as status:

                def say(text: str, status: Status = status, label: str = scenario.label) -> None:
                    status.update(f"{label}: {text}")

                found = compare(bench, effort, peers=peers, say=say)
            _write(facts, scenario.name, found)
            console.print(report.line(found))
        with console.status("Python per batch, opening"):
            largest = next((s for s in scenarios if s.layout == "flat"), scenarios[0])
            costs = {
                "python": overheads.python_per_batch(folder),
                "opening": overheads.opening(folder / largest.store),
            }
        _write(facts, "overheads", {"overheads": costs})


def _write(facts: dict[str, Any], name: str, found: dict[str, Any]) -> None:
    path = RESULTS / f"{facts['date']}-{name}.json"
    path.write_text(json.dumps(facts | found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
