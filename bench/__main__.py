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
from bench.compare import PEERS, Bench, Effort, compare
from bench.scenarios import Scenario, chosen

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build" / "bench"
RESULTS = ROOT / "bench" / "results"
DOCUMENT = ROOT / "docs" / "benchmarks.md"


def main(
    quick: Annotated[bool, typer.Option(help="Two short scenarios, to see that it works.")] = False,
    full: Annotated[bool, typer.Option(help="Every scenario and competitor; an hour.")] = False,
    only: Annotated[str, typer.Option(help="Scenarios whose name contains this.")] = "",
    rows: Annotated[int, typer.Option(help="Length of the stores' record.")] = 120,
    rounds: Annotated[int, typer.Option(help="Runs of native and floor, in turn.")] = 5,
    docs: Annotated[bool, typer.Option(help="Write docs/benchmarks.md from the results.")] = False,
    markdown: Annotated[bool, typer.Option(help="Print the table of README.md.")] = False,
    report_only: Annotated[bool, typer.Option(help="Show the results that are there.")] = False,
) -> None:
    """Measures NativeLoader against the floor, CpuLoader and zarr-python.

    Results go to bench/results, stores to $NISKIN_BENCH_DIR or build/bench/stores.
    """
    console = Console()
    folder = RESULTS / "quick" if quick else RESULTS  # too short to be reported with the others
    if not report_only:
        scenarios = _scenarios(quick=quick, full=full, only=only, rows=rows)
        effort = Effort(
            rounds=min(rounds, 2) if quick else rounds,
            peer_rounds=1 if quick else min(rounds, 3 if full else 2),
            threads=len(os.sched_getaffinity(0)),
        )
        _measure(scenarios, console, folder, effort=effort, quick=quick, full=full)
    results = report.load(folder)
    if not results:
        raise SystemExit(f"bench: no results in {folder}")
    report.show(results, console)
    if markdown:
        console.print("\n".join(report.short_table(results)), markup=False, soft_wrap=True)
    if docs:
        DOCUMENT.write_text(report.document(results))
        console.print(f"written: {DOCUMENT.relative_to(ROOT)}")


def _scenarios(*, quick: bool, full: bool, only: str, rows: int) -> Sequence[Scenario]:
    if quick:
        return [
            Scenario(layout=layout, codec="lz4", batch=2, steps=4, rows=30)
            for layout in ("flat", "compact")
        ]
    found = [scenario for scenario in chosen(rows=rows, full=full) if only in scenario.name]
    if not found:
        raise SystemExit(f"bench: --only {only}: no such scenario")
    return found


def _measure(
    scenarios: Sequence[Scenario],
    console: Console,
    results: Path,
    *,
    effort: Effort,
    quick: bool,
    full: bool,
) -> None:
    program = floor.build(ROOT, BUILD)
    folder = stores.folder(BUILD)
    stores.build_missing(folder, scenarios, console)
    results.mkdir(parents=True, exist_ok=True)
    facts = {
        "date": dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H%MZ"),
        "commit": machine.commit(ROOT),
        "machine": machine.describe(),
    }
    with tempfile.TemporaryDirectory(prefix="niskin-bench-") as scratch:
        for scenario in scenarios:
            bench = Bench(
                scenario,
                stores=folder,
                program=program,
                folder=Path(scratch),
                threads=effort.threads,
            )
            with console.status(scenario.label) as status:

                def say(text: str, status: Status = status, label: str = scenario.label) -> None:
                    status.update(f"{label}: {text}")

                found = compare(bench, effort, peers=_peers(scenario, quick, full), say=say)
            _write(results, facts, scenario.name, found)
            console.print(report.line(found))
    if quick:
        return
    with console.status("Python per batch, opening"):
        largest = next((s for s in scenarios if s.layout == "flat"), scenarios[0])
        costs = {
            "python": overheads.python_per_batch(folder),
            "opening": overheads.opening(folder / largest.store),
        }
    _write(results, facts, "overheads", {"overheads": costs})


def _peers(scenario: Scenario, quick: bool, full: bool) -> Sequence[str]:
    """Those who are much slower: all of them on every store would take an hour."""
    if full:
        return PEERS
    if quick:
        return ("cpu-0",)
    each = scenario.steps == 4 and scenario.prognostic == "thermo_dynamic_all"
    return PEERS if each and scenario.codec == "lz4" else ()


def _write(results: Path, facts: dict[str, Any], name: str, found: dict[str, Any]) -> None:
    path = results / f"{facts['date']}-{name}.json"
    path.write_text(json.dumps(facts | found, indent=1) + "\n")


if __name__ == "__main__":
    typer.run(main)
