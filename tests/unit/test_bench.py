from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import report
from bench.checksum import checksum
from bench.compare import Bench, Effort, Run, compare
from bench.scenarios import Scenario, chosen

EFFORT = Effort(rounds=5, peer_rounds=1, threads=1)


class Scripted(Bench):
    """Competitors that answer and take what a test says, and remember that they were timed."""

    def __init__(self, answers: dict[str, list[int]]) -> None:
        scenario = Scenario(layout="flat", codec="none", batch=8, steps=4)
        super().__init__(scenario, stores=Path(), program=Path(), folder=Path(), threads=1)
        self.answers = answers
        self.timed: list[str] = []

    def answer(self, competitor: str) -> list[int]:
        return self.answers[competitor]

    def time(self, competitor: str) -> dict[str, Any]:
        self.timed.append(competitor)
        seconds = {"floor": 2.0, "native": 1.0, "cpu-0": 10.0}[competitor]
        return {"seconds": [seconds], "total_s": seconds, "processor_s": seconds}


def quiet(_: str) -> None:
    pass


def test_nothing_is_timed_where_answers_differ() -> None:
    bench = Scripted({"floor": [5], "native": [5], "cpu-0": [6]})

    with pytest.raises(SystemExit, match=r"cpu-0: got checksums \[6\], expected \[5\]"):
        compare(bench, EFFORT, peers=("cpu-0",), say=quiet)

    assert bench.timed == []


def test_competitors_take_turns_and_ratios_come_from_one_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("bench.compare.bytes_of", lambda *_: (4e9, 8e9))
    bench = Scripted({"floor": [5], "native": [5], "cpu-0": [5]})

    summary = compare(bench, EFFORT, peers=("cpu-0",), say=quiet)["summary"]

    assert bench.timed[:3] == ["floor", "native", "cpu-0"]
    assert bench.timed[3:] == ["native", "floor", "floor", "native"] * 2
    assert summary["native"]["times_floor_each"] == [0.5] * 5
    assert summary["cpu-0"]["times_floor"] == 5
    assert summary["cpu-0"]["times_native"] == 10
    assert summary["native"]["unique_gb_per_s"] == 4
    assert summary["native"]["delivered_gb_per_s"] == 8


def test_a_checksum_sees_a_bit_a_place_and_a_plane() -> None:
    """A one (bits 0x3f800000) at cell 3 of all counts its bits 2 * 3 + 1 times."""
    base = np.zeros((1, 2, 1, 2), np.float32)
    base[0, 1, 0, 1] = 1
    moved, swapped = np.zeros_like(base), np.zeros_like(base)
    moved[0, 1, 0, 0] = 1
    swapped[0, 0, 0, 1] = 1

    assert checksum([base]) == 0x3F800000 * 7
    assert len({checksum([b]) for b in (base, -base, moved, swapped)}) == 4


def test_the_readme_table_is_rendered_from_results() -> None:
    native = {"times_floor": 0.876, "unique_gb_per_s": 3.21}
    cpu = {"cpu-0": {"times_native": 9.0}, "cpu-2": {"times_native": 7.04}}
    results = [
        {"scenario": asdict(s), "summary": {"native": native, **(cpu if s.codec == "lz4" else {})}}
        for s in chosen(rows=120, full=False)
    ]

    lines = report.short_table(results)

    assert len(lines) == 2 + 6  # batches of 8 with 4 steps and all levels, and no others
    assert lines[2] == "| flat, none | 0.88 | 3.2 | – |"
    assert lines[3] == "| flat, lz4 | 0.88 | 3.2 | 7.0 × faster |"


def test_each_run_warms_up_before_it_counts() -> None:
    from bench.compare import RUNS

    assert all(isinstance(run, Run) and run.warm >= 1 and run.timed >= 2 for run in RUNS.values())
