"""The floor: builds the program and writes its job, so that it need not know what a store is."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from bench.scenarios import Scenario

if TYPE_CHECKING:
    from niskin.bases import BasePlan

__all__ = ["build", "run", "write_job"]


def build(source: Path, build_folder: Path) -> Path:
    """The program, in Release and for this machine."""
    configure = [
        "cmake", "-S", str(source), "-B", str(build_folder), "-G", "Ninja",
        "-DCMAKE_BUILD_TYPE=Release", "-DNISKIN_BUILD_TESTS=OFF", "-DNISKIN_BUILD_PYTHON=OFF",
        "-DNISKIN_BUILD_BENCH=ON",
    ]  # fmt: skip
    if not (build_folder / "build.ninja").exists():
        subprocess.run(configure, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(
        ["ninja", "-C", str(build_folder), "niskin_floor"], check=True, stdout=subprocess.DEVNULL
    )
    return build_folder / "bench" / "niskin_floor"


def run(program: Path, job: Path) -> dict[str, Any]:
    """What the program measured."""
    done = subprocess.run([str(program), str(job)], check=True, stdout=subprocess.PIPE)
    result: dict[str, Any] = json.loads(done.stdout)
    return result | {"total_s": sum(result["seconds"])}


def write_job(
    folder: Path, scenario: Scenario, stores: Path, *, warm: int, timed: int, check: bool,
    threads: int,
) -> Path:  # fmt: skip
    """The job as a file in `folder`."""
    shard = scenario.shard(stores)
    job = _Job(folder, shard.source.store_path)
    batches = [job.batch(shard.bases(b)) for b in scenario.schedule(shard, warm + timed)]
    path = folder / f"floor-{scenario.name}-{'check' if check else 'time'}.json"
    path.write_text(
        json.dumps(
            {
                "store": shard.source.store_path,
                "plane_cells": shard.source.lat.size * shard.source.lon.size,
                "compressed": job.compressed,
                "chunk_planes": job.chunk_planes,
                "fields": job.fields,
                "masks": job.masks,
                "keys": list(job.keys),
                "slots": job.slots,
                "batches": batches,
                "warm": warm,
                "check": check,
                "threads": threads,
            }
        )
    )
    return path


class _Job:
    """Numbers keys, fields and masks as batches ask for them."""

    def __init__(self, folder: Path, store: str) -> None:
        self._folder = folder
        self._store = Path(store)
        self.keys: dict[str, int] = {}
        self.fields: list[tuple[float, float, int]] = []
        self.masks: list[str] = []
        self.slots = 0
        self.chunk_planes = 1
        self.compressed = False
        self._numbers: dict[str, int] = {}
        self._mask_numbers: dict[int, int] = {}
        self._chunks: dict[str, tuple[int, ...]] = {}

    def batch(self, plans: Sequence[BasePlan]) -> dict[str, Any]:
        """Tasks in the order of rows, then arrays: each chunk once, its planes in order."""
        tasks: dict[tuple[int, str], dict[tuple[int, int], list[int]]] = {}
        dry: list[int] = []
        first = 0
        for plan in plans:
            for number, channel in enumerate(plan.channels):
                field = self._field(plan, channel)
                wet = plan.source.masks[channel].any()
                for at, row in enumerate(plan.source.rows[plan.positions].tolist()):
                    slot = first + at * len(plan.channels) + number
                    if not wet:
                        dry.append(slot)
                        continue
                    key, plane = self._chunk(plan, channel, row)
                    planes = tasks.setdefault((row, key), {})
                    planes.setdefault((plane, field), []).append(slot)
            first += plan.layout.base_rows * len(plan.channels)
        self.slots = max(self.slots, first)
        listed = [
            (
                self.keys.setdefault(key, len(self.keys)),
                [(*place, slots) for place, slots in sorted(planes.items())],
            )
            for (_, key), planes in sorted(tasks.items(), key=lambda item: item[0][0])
        ]
        return {"tasks": listed, "dry": dry}

    def _field(self, plan: BasePlan, channel: str) -> int:
        if channel not in self._numbers:
            means, stds = plan.source.statistics((channel,))
            mask = self._mask(plan.source.masks[channel])
            self._numbers[channel] = len(self.fields)
            # float32 through JSON and back: a double holds it exactly.
            self.fields.append((float(np.float32(means[0])), float(np.float32(stds[0])), mask))
        return self._numbers[channel]

    def _mask(self, mask: Any) -> int:
        if id(mask) not in self._mask_numbers:
            self._mask_numbers[id(mask)] = len(self.masks)
            path = self._folder / f"mask-{len(self.masks)}.bits"
            path.write_bytes(np.packbits(mask.reshape(-1), bitorder="little").tobytes())
            self.masks.append(str(path))
        return self._mask_numbers[id(mask)]

    def _chunk(self, plan: BasePlan, channel: str, row: int) -> tuple[str, int]:
        """The key of the chunk that holds a plane, and the plane's number in it."""
        location = plan.source.location(channel)
        chunks = self._geometry(location.array, (plan.source.lat.size, plan.source.lon.size))
        if len(chunks) == 3:
            return f"{location.array}/{row}.0.0", 0
        assert location.level is not None
        return f"{location.array}/0.{row}.0.0", location.level

    def _geometry(self, array: str, grid: tuple[int, int]) -> tuple[int, ...]:
        """Chunks of an array, which must be (1, ny, nx) or (levels, 1, ny, nx)."""
        if array not in self._chunks:
            meta = json.loads((self._store / array / ".zarray").read_text())
            chunks = tuple(meta["chunks"])
            expected = (1, *grid) if len(chunks) == 3 else (meta["shape"][0], 1, *grid)
            if chunks != expected or meta["dimension_separator"] != "." or meta["order"] != "C":
                raise SystemExit(f"floor: {array}: got chunks {chunks}, expected {expected}")
            self._chunks[array] = chunks
            self.compressed = meta["compressor"] is not None
            self.chunk_planes = max(self.chunk_planes, chunks[0])
        return self._chunks[array]
