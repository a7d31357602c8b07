"""The C++ loader against the xarray loader, bit for bit, over every setting that shapes a batch.

The gate runs cases in which every pair of settings occurs; the nightly run takes them all.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from niskin import CpuLoader, NativeLoader, Pool, TrainingShard, numpy_batches
from niskin.batch import Batch
from niskin.canonical import CanonicalDataset
from pairwise import Case, all_pairs, pairs_of, pairwise_cases
from same_bits import assert_same_batches
from stores import tiny_store

PROGNOSTIC = ("thetao_2", "so_0", "thetao_0", "zos")
BOUNDARY = ("tauuo", "hfds")
FACTORS: dict[str, tuple[Any, ...]] = {
    "hist": (0, 1, 2),
    "steps": (1, 2, 4),
    "stride": (1, 2),
    "normalize_before_mask": (True, False),
    "masked_fill_value": (0.0, -1.0),
    "layout": ("flat", "compact", "compact-time-first"),
    "codec": ("none", "blosc-lz4", "zstd"),
    "schedule": ("shuffled", "repeats", "neighbours", "descending"),
    "decode_threads": (1, 2, 8),
}
# The longest window, hist 2, steps 4 and stride 2, spans 29 rows: 6 samples are left.
ROWS = 34
CASES = pairwise_cases(FACTORS)

Sources = Callable[[str, str], CanonicalDataset]


@pytest.fixture(scope="module")
def source_of(tmp_path_factory: pytest.TempPathFactory) -> Sources:
    """The dataset of a layout and codec, written when first asked for."""

    @cache
    def opened(layout: Any, codec: Any) -> CanonicalDataset:
        path: Path = tmp_path_factory.mktemp(f"{layout}-{codec}")
        store = tiny_store(path, rows=ROWS, ny=3, nx=7, layout=layout, codec=codec)
        return store.open(prognostic=PROGNOSTIC, boundary=BOUNDARY)

    return opened


@pytest.fixture(scope="module")
def pool_of() -> Any:
    """A pool of so many decode threads, shared by the cases."""
    pools = {n: Pool(max_concurrent_reads=8, decode_threads=n) for n in FACTORS["decode_threads"]}
    yield pools.__getitem__
    for pool in pools.values():
        assert pool.close() == 0


def schedule_of(kind: str, samples: int) -> list[list[int]]:
    if kind == "repeats":
        return [[1, 1, 0], [0, 1, 1]]
    if kind == "neighbours":  # overlapping windows share memory where stride and history let them
        return [[0, 1, 2], [3, 4, 5]]
    if kind == "descending":
        return [[5, 4, 3], [2, 1, 0]]
    order = random.Random(samples).sample(range(samples), 6)
    return [order[0:2], order[2:4], order[4:]]


def shard_of(case: Case, source_of: Sources) -> TrainingShard:
    options = ("hist", "steps", "stride", "normalize_before_mask", "masked_fill_value")
    source = source_of(case["layout"], case["codec"])
    return TrainingShard(source, **{name: case[name] for name in options})


def planes_per_row(shard: TrainingShard, *, of: str) -> tuple[int, int]:
    """Prognostic and boundary: how many channels, or arrays that hold them, a row has."""
    lists = shard.prognostic, shard.boundary
    if of == "channels":
        return len(lists[0]), len(lists[1])
    prognostic, boundary = ({shard.source.location(c).array for c in names} for names in lists)
    return len(prognostic), len(boundary)


def expected(shard: TrainingShard, schedule: list[list[int]], *, of: str) -> int:
    """Each needed row of each channel or array, once for a batch."""
    return sum(
        count * len(shard.plan(batch).unique_rows(role))
        for batch in schedule
        for role, count in zip(
            ("prognostic", "boundary"), planes_per_row(shard, of=of), strict=True
        )
    )


def check_native(
    shard: TrainingShard, schedule: list[list[int]], cpu: list[Batch], codec: str, pool: Pool
) -> None:
    with NativeLoader([shard], schedule, pool=pool) as loader:
        assert_same_batches(list(loader), cpu)
        stats = loader.stats()
    # A chunk holds one row of an array, all levels. Of uncompressed ones only the wanted planes are
    # read; no two of them are neighbours.
    assert stats["chunks"] == expected(shard, schedule, of="arrays")
    if codec == "none":
        assert stats["reads"] == expected(shard, schedule, of="channels")
        assert stats["bytes_read"] == stats["reads"] * 3 * 7 * 4
        assert stats["decodes"] == 0
    else:
        assert stats["reads"] == stats["decodes"] == stats["chunks"]


def test_the_cases_of_the_gate_hold_every_pair() -> None:
    covered = {pair for case in CASES for pair in pairs_of(case)}
    assert covered == all_pairs(FACTORS)
    assert all(list(case) == list(FACTORS) for case in CASES)
    assert len(CASES) < 30


@pytest.mark.parametrize("case", CASES, ids=lambda case: "-".join(map(str, case.values())))
def test_pair_of_settings(case: Case, source_of: Sources, pool_of: Callable[[int], Pool]) -> None:
    shard = shard_of(case, source_of)
    schedule = schedule_of(case["schedule"], len(shard))
    cpu = list(CpuLoader([shard], schedule))
    pool = pool_of(case["decode_threads"])
    check_native(shard, schedule, cpu, case["codec"], pool)
    with numpy_batches([shard], schedule, pool=pool) as arrays:
        assert_same_batches(list(arrays), cpu)


@pytest.mark.nightly
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("codec", FACTORS["codec"])
@pytest.mark.parametrize("layout", FACTORS["layout"])
def test_every_setting(
    layout: str, codec: str, source_of: Sources, pool_of: Callable[[int], Pool]
) -> None:
    names = [name for name in FACTORS if name not in ("layout", "codec", "decode_threads")]
    for values in product(*(FACTORS[name] for name in names)):
        case = dict(zip(names, values, strict=True)) | {"layout": layout, "codec": codec}
        shard = shard_of(case, source_of)
        schedule = schedule_of(case["schedule"], len(shard))
        cpu = list(CpuLoader([shard], schedule))
        for threads in FACTORS["decode_threads"]:
            check_native(shard, schedule, cpu, codec, pool_of(threads))
