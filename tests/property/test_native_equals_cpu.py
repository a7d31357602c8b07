"""Random stores, windows and schedules: both loaders give the bits that the definition gives."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from niskin import CpuLoader, NativeLoader, TrainingShard, numpy_batches
from prepared import expected_steps
from same_bits import assert_same_batches, bits
from stores import TinyStore, tiny_store

ROWS = 12
CHANNELS = ("thetao_0", "so_1", "thetao_1", "uo_0", "zos", "hfds", "tauuo")


def some_of(names: tuple[str, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    return st.lists(st.sampled_from(names), min_size=1, max_size=4, unique=True).map(tuple)


@st.composite
def store_options(draw: st.DrawFn) -> dict[str, Any]:
    ny, nx = draw(st.integers(1, 5)), draw(st.integers(1, 9))
    tiles = st.none() | st.tuples(st.integers(1, ny + 1), st.integers(1, nx + 1))
    return {
        "ny": ny,
        "nx": nx,
        "layout": draw(st.sampled_from(["flat", "compact", "compact-time-first", "mixed"])),
        "codec": draw(st.sampled_from(["none", "lz4", "zstd", "blosc-lz4", "blosc-zstd", "gzip"])),
        "dtype": draw(st.sampled_from(["<f4", ">f4"])),
        "order": draw(st.sampled_from(["C", "F"])),
        "separator": draw(st.sampled_from([".", "/"])),
        "rows_per_chunk": draw(st.integers(1, ROWS + 1)),
        "levels_per_chunk": draw(st.none() | st.integers(1, 3)),
        "cell_chunks": draw(tiles),
        "seed": draw(st.integers(0, 9)),
    }


@st.composite
def shard_options(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "hist": draw(st.integers(0, 2)),
        "steps": draw(st.integers(1, 2)),
        "stride": draw(st.integers(1, 2)),
        "normalize_before_mask": draw(st.booleans()),
        "masked_fill_value": draw(st.sampled_from([0.0, -0.0, -1.0, 0.1, 3e38])),
    }


@st.composite
def schedules(draw: st.DrawFn, samples: int) -> list[list[int]]:
    if draw(st.booleans()):  # neighbours, which may share memory
        size = draw(st.integers(1, samples))
        firsts = draw(st.lists(st.integers(0, samples - size), min_size=1, max_size=3))
        return [list(range(first, first + size)) for first in firsts]
    batch = st.lists(st.integers(0, samples - 1), min_size=1, max_size=4)
    return draw(st.lists(batch, min_size=1, max_size=3))


def check(store: TinyStore, data: Any) -> None:
    names = {"prognostic": data.draw(some_of(CHANNELS)), "boundary": data.draw(some_of(CHANNELS))}
    source = store.open(**names)
    first_row = data.draw(st.integers(0, 1))
    subset = source.between(source.time[first_row], source.time[-1])
    # The longest window, hist 2, steps 2 and stride 1 or hist 1 and stride 2, spans 11 rows.
    options = data.draw(shard_options())
    if options["stride"] * ((options["hist"] + 1) * (options["steps"] + 1) - 1) >= len(subset.time):
        options["steps"], options["stride"] = 1, 1
    shard = TrainingShard(subset, **options)
    schedule = data.draw(schedules(len(shard)))
    writable = data.draw(st.booleans())

    cpu = list(CpuLoader([shard], schedule, writable=writable))
    threads = data.draw(st.sampled_from([1, 2, 8]))
    with NativeLoader([shard], schedule, writable=writable, decode_threads=threads) as loader:
        native = list(loader)
        assert_same_batches(native, cpu)
        assert loader.stats()["chunks"] > 0
    with numpy_batches([shard], schedule, writable=writable) as arrays:
        assert_same_batches(list(arrays), cpu)
    for batch, indices in zip(native, schedule, strict=True):
        for step, truth in zip(
            batch, expected_steps(store, shard, indices, first_row=first_row), strict=True
        ):
            for tensor, planes in zip(step, truth, strict=True):
                assert np.array_equal(bits(tensor), bits(planes))


@pytest.mark.timeout(1800)  # the nightly run takes many more examples
@given(store_options(), st.data())
def test_any_store_window_and_schedule(options: dict[str, Any], data: Any) -> None:
    path = Path(tempfile.mkdtemp())
    try:
        store = tiny_store(path, rows=ROWS, levels=2, statistics="compact", **options)
        for _ in range(2):  # stores cost more than batches
            check(store, data)
    finally:
        shutil.rmtree(path)
