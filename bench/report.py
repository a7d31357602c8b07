"""Results as a table on the terminal and as docs/benchmarks.md."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.scenarios import Scenario

__all__ = ["document", "line", "load", "short_table", "show"]

Result = dict[str, Any]
CPU = ("cpu-0", "cpu-2")


def load(folder: Path) -> list[Result]:
    """The newest result of each scenario, and of the overheads, in the order they ran."""
    newest: dict[str, Result] = {}
    for path in sorted(folder.glob("*.json")):
        found: Result = json.loads(path.read_text())
        key = "overheads" if "overheads" in found else Scenario(**found["scenario"]).name
        newest.pop(key, None)
        newest[key] = found
    order = ("flat", "compact", "none", "lz4", "zstd")

    def place(item: tuple[str, Result]) -> tuple[Any, ...]:
        if "overheads" in item[1]:
            return (1,)
        s = Scenario(**item[1]["scenario"])
        return (0, -s.batch, -s.steps, -len(s.prognostic), order.index(s.layout),
                order.index(s.codec))  # fmt: skip

    return [result for _, result in sorted(newest.items(), key=place)]


def line(result: Result) -> str:
    """A scenario in one line."""
    native = result["summary"]["native"]
    label = Scenario(**result["scenario"]).label
    text = (
        f"{label}: {native['times_floor']:.2f} × floor, {native['unique_gb_per_s']:.2f} GB/s unique"
    )
    cpu = _times_cpu(result["summary"])
    return text if cpu is None else f"{text}, {cpu:.1f} × faster than CpuLoader"


def show(results: Sequence[Result], console: Console) -> None:
    """Tables of all results."""
    table = Table(title="NativeLoader; medians of runs in turn, answers compared first")
    shown = [k for k, heading in enumerate(_HEADINGS) if heading in _ON_TERMINAL]
    for number in shown:
        table.add_column(_HEADINGS[number], justify="right" if number else "left")
    for result in results:
        if "summary" in result:
            row = _row(result)
            table.add_row(*(row[number] for number in shown))
    console.print(table)
    for text in _overheads(results):
        console.print(text)


_HEADINGS = (
    "scenario", "× floor", "ms/batch", "GB/s unique", "GB/s delivered", "CPU s/GB (floor)",
    "first batch s", "wait p50/max ms", "peak GB (limit)", "faster than CpuLoader",
    "than zarr-python",
)  # fmt: skip
_ON_TERMINAL = ("scenario", "× floor", "ms/batch", "GB/s unique", "faster than CpuLoader",
                "than zarr-python")  # fmt: skip


def _row(result: Result) -> list[str]:
    summary = result["summary"]
    native = summary["native"]
    cpu = _times_cpu(summary)
    zarr = summary.get("zarr-python", {}).get("times_native")
    own, floors = native["processor_s_per_gb"], summary["floor"]["processor_s_per_gb"]
    return [
        Scenario(**result["scenario"]).label,
        f"{native['times_floor']:.2f}",
        f"{native['batch_s'] * 1e3:.0f}",
        f"{native['unique_gb_per_s']:.2f}",
        f"{native['delivered_gb_per_s']:.1f}",
        f"{own:.2f} ({floors:.2f})",
        f"{native['first_batch_s']:.2f}",
        f"{native['wait_p50_s'] * 1e3:.0f} / {native['wait_max_s'] * 1e3:.0f}",
        f"{native['peak_growth_bytes'] / 1e9:.2f} ({native['memory_limit'] / 1e9:.2f})",
        "–" if cpu is None else f"{cpu:.1f} ×",
        "–" if zarr is None else f"{zarr:.1f} ×",
    ]


def _times_cpu(summary: dict[str, Any]) -> float | None:
    """How many times longer the better CpuLoader takes."""
    times = [summary[name]["times_native"] for name in CPU if name in summary]
    return min(times) if times else None


def _overheads(results: Sequence[Result]) -> list[str]:
    found = [result["overheads"] for result in results if "overheads" in result]
    if not found:
        return []
    python, opening = found[-1]["python"], found[-1]["opening"]
    per_batch = (
        f"Python for each batch: {python['batch_us']:.0f} µs of the consumer's thread, "
        f"{python['batch_and_views_us']:.0f} µs with the views of one step."
    )
    to_open = (
        f"Opening a consolidated store of {opening['variables']} variables with its statistics: "
        f"open_om4 {opening['open_om4_ms']:.0f} ms and the loader {opening['loader_ms']:.0f} ms, "
        f"{opening['beyond_xarray_ms']:.0f} ms beyond xarray's {opening['xarray_ms']:.0f} ms for "
        f"the data store alone ({opening['xarray_three_ms']:.0f} ms for all three; "
        f"{opening['xarray_read_ms']:.0f} ms where it also reads the same statistics and masks)."
    )
    return [per_batch, to_open]


def document(results: Sequence[Result]) -> str:
    """docs/benchmarks.md."""
    facts = results[0]
    machine = facts["machine"]
    commits = sorted({result["commit"] for result in results})
    dates = sorted({result["date"][:10] for result in results})
    loads = [result["load_before"] for result in results if "load_before" in result]
    where = (
        f"Measured {' and '.join(dates)} at {', '.join(commits)}: {machine['processor']}, "
        f"{machine['cores']} cores, {machine['vectors']}, {machine['memory_gb']} GB, Linux "
        f"{machine['kernel']}, Python {machine['python']}, torch {machine['torch']}, zarr "
        f"{machine['zarr']}, xarray {machine['xarray']}; load before each scenario "
        f"{min(loads):.1f} to {max(loads):.1f}."
    )
    lines = [
        "# Benchmarks",
        "",
        "Written by `python -m bench --report-only --docs` from the last results. Ratios come from",
        "one run each; other machines give other numbers.",
        "",
        where,
        "",
        *_METHOD,
        "",
        "## NativeLoader",
        "",
        *_markdown(_HEADINGS, [_row(r) for r in results if "summary" in r]),
        "",
        "## Time of all, divided by the time of the floor",
        "",
        *_everyone(results),
        "",
        "## Around the batches",
        "",
        *(f"- {text}" for text in _overheads(results)),
        "",
    ]
    return "\n".join(lines)


def short_table(results: Sequence[Result]) -> list[str]:
    """The table of README.md: batches of 8 samples and 4 steps."""
    headings = ("1°, 77 + 3 channels, batch 8, 4 steps", "time ÷ floor", "GB/s unique",
                "against the better CpuLoader")  # fmt: skip
    rows = []
    for result in results:
        if "summary" not in result:
            continue
        scenario, native = Scenario(**result["scenario"]), result["summary"]["native"]
        if (scenario.batch, scenario.steps, scenario.prognostic) != (8, 4, "thermo_dynamic_all"):
            continue
        cpu = _times_cpu(result["summary"])
        rows.append(
            [
                f"{scenario.layout}, {scenario.codec}",
                f"{native['times_floor']:.2f}",
                f"{native['unique_gb_per_s']:.1f}",
                "–" if cpu is None else f"{cpu:.1f} × faster",
            ]
        )
    return _markdown(headings, rows)


def _everyone(results: Sequence[Result]) -> list[str]:
    names = ("native", "zarr-python", *CPU)
    headings = ("scenario", "floor, ms/batch", "GB/s unique", *names)
    rows = []
    for result in results:
        if "summary" not in result:
            continue
        summary = result["summary"]
        cells = [f"{summary[n]['times_floor']:.2f}" if n in summary else "–" for n in names]
        floors = summary["floor"]
        rows.append(
            [
                Scenario(**result["scenario"]).label,
                f"{floors['batch_s'] * 1e3:.0f}",
                f"{floors['unique_gb_per_s']:.2f}",
                *cells,
            ]
        )
    return _markdown(headings, rows)


def _markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    rule = ["---", *("--:" for _ in headings[1:])]
    return ["| " + " | ".join(row) + " |" for row in (headings, rule, *rows)]


_METHOD = """\
## Running it

`make bench` builds the floor and the stores (under `build/bench`, or in `$NISKIN_BENCH_DIR`), which
takes a few minutes and 10 GB once, and measures for about ten minutes on two quiet cores.
`python -m bench` takes options: `--quick` (two short scenarios, to see that it works), `--full`
(every scenario and competitor, an hour), `--only flat-lz4` (scenarios by name), `--rows`,
`--rounds`. Results are JSON files in `bench/results`, the newest of each scenario counts;
`--report-only` shows them again, `--markdown` prints the table of the README and `--docs` writes
this page.

## What is compared

**What is read.** Stores from `niskin sample-store` (1°, 19 levels, 120 five-day means unless
stated otherwise): 77 prognostic and 3 boundary channels, history 1, stride 1, samples shuffled with
seed 15, B samples in a batch and S rollout steps. "Unique" counts each (row, channel) plane of a
batch once, which is what must be read; "delivered" counts the tensors of every step as a consumer
sees them.

**The floor** (`bench/floor.cpp`): for each unique chunk `open`, `pread`, c-blosc, then one fused
normalize-mask-store pass with streaming stores into a reused window tensor that was touched
before. As many threads as cores, no look-ahead, a barrier for each batch, no metadata, no checks;
compiled for the machine. Of chunks with more levels than asked for it decodes only the blocks it
needs.

**The others.** `cpu-0` and `cpu-2` are CpuLoader with no and two workers; zarr-python reads runs of
unique rows with slices and prepares with torch.

**How it is measured.** Every competitor's first batch must have the checksum of the floor's, or
nothing is timed. Each run is a fresh process that finds the store in the page cache, delivers a
few batches to warm up (memory touched, workers started) and then has every second counted from
asking for the first batch to having the last one. Competitors take turns, and ratios are taken
within a round; tables show medians. The consumer touches one value of each tensor and computes
nothing, so look-ahead gains little. Peak is the growth of resident memory over that before the
first read. Processor seconds change less than times where other programs run.

## What the figures do not show

- A cold page cache or a network file system: there, reading decides, and neither decoding nor the
  fused pass matters much.
- Transfer to a GPU, and a training step that computes while batches are prepared.
- Grids and chunk shapes other than those listed, several rows in a chunk among them.
- More than the cores named above.
""".splitlines()
