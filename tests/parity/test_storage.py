"""However a store lays out its chunks, the C++ loader reads what xarray reads, bit for bit."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import zarr

from niskin import CpuLoader, DistributedBatchSampler, NativeLoader, TrainingShard, numpy_batches
from niskin.canonical import CanonicalDataset
from same_bits import assert_same_batches, bits
from stores import DEPTH_VARIABLES, SURFACE_VARIABLES, TinyStore, tiny_store, write_array

PROGNOSTIC = ("thetao_0", "thetao_1", "thetao_2", "uo_1", "zos")
SCHEDULE = [[3, 0], [2, 2, 1]]
BIG = {"ny": 40, "nx": 61}  # several Blosc blocks in a chunk of a few planes
TILES = {"ny": 5, "nx": 7, "cell_chunks": (2, 3)}  # edge chunks on both axes

STORES: dict[str, dict[str, Any]] = {
    "depth-value names": {"layout": "depth-names"},
    "mixed layouts": {"layout": "mixed", "codec": "blosc-lz4"},
    "plain metadata": {"consolidated": False},
    "masks with a time axis": {"layout": "compact", "mask": "stacked-time"},
    "flat statistics of a compact store": {"layout": "compact", "statistics": "flat"},
    "statistics in NetCDF": {"statistics": "netcdf"},
    "compact statistics in NetCDF": {"layout": "compact", "statistics": "netcdf-compact"},
    "nested keys": {"separator": "/"},
    "nested keys, compact": {"separator": "/", "layout": "compact", "codec": "zstd"},
    "big-endian": {"dtype": ">f4"},
    "big-endian, shuffled": {"dtype": ">f4", "layout": "compact", "codec": "blosc-lz4"} | BIG,
    "F order": {"order": "F", "layout": "compact"},
    "F order, encoded": {"order": "F", "codec": "lz4", "rows_per_chunk": 3},
    "tiles": TILES,
    "tiles, encoded": TILES | {"codec": "blosc-zstd", "layout": "compact-time-first"},
    "several rows in a chunk": {"rows_per_chunk": 5},
    "several rows in a chunk, encoded": {"rows_per_chunk": 5, "codec": "blosc-lz4"} | BIG,
    "several rows and levels in a chunk": {"layout": "compact", "rows_per_chunk": 3} | BIG,
    "chunks of levels": {"layout": "compact", "levels_per_chunk": 2, "codec": "blosc-lz4"} | BIG,
    "chunks of levels, time first": {"layout": "compact-time-first", "levels_per_chunk": 2},
    "no fill value": {"fill_value": None},
    "a fill value that marks": {"fill_value": -1e34, "codec": "zlib"},
    "everything at once": TILES
    | {
        "layout": "compact", "order": "F", "dtype": ">f4", "separator": "/", "codec": "gzip",
        "rows_per_chunk": 5, "levels_per_chunk": 2, "statistics": "netcdf",
    },
}  # fmt: skip


def check(source: CanonicalDataset, **options: Any) -> TrainingShard:
    shard = TrainingShard(source, **({"hist": 1, "steps": 2} | options))
    cpu = list(CpuLoader([shard], SCHEDULE))
    with NativeLoader([shard], SCHEDULE) as loader:
        assert_same_batches(list(loader), cpu)
    with numpy_batches([shard], SCHEDULE) as loader:
        assert_same_batches(list(loader), cpu)
    return shard


def assert_raw_values(store: TinyStore, source: CanonicalDataset) -> None:
    """What both loaders start from is what the writer put there."""
    rows = [3, 0]
    read = source.read(rows, source.channels)
    assert np.array_equal(bits(read), bits(store.expected(rows, source.channels)))


@pytest.mark.parametrize("options", STORES.values(), ids=STORES.keys())
def test_store_laid_out_as(options: dict[str, Any], tmp_path: Path) -> None:
    store = tiny_store(tmp_path, **({"rows": 9, "statistics": "compact"} | options))
    source = store.open(prognostic=PROGNOSTIC, boundary=("tauuo", "hfds"))
    assert_raw_values(store, source)
    check(source)


def test_every_codec_and_shuffle_in_one_store(tmp_path: Path) -> None:
    """Each array of the store is encoded in another way."""
    codecs: list[Any] = [
        numcodecs.Blosc(name, clevel=level, shuffle=shuffle)
        for name, shuffle in product(numcodecs.blosc.list_compressors(), (-1, 0, 1, 2))
        for level in (1, 9)
    ]
    codecs += [numcodecs.Blosc("lz4", clevel=0), numcodecs.Blosc("zstd", blocksize=1 << 12)]
    codecs += [numcodecs.Zlib(9), numcodecs.GZip(9), numcodecs.LZ4(9), numcodecs.Zstd(19), None]
    levels = -(-(len(codecs) - len(SURFACE_VARIABLES)) // len(DEPTH_VARIABLES))
    store = tiny_store(
        tmp_path, rows=9, levels=levels, ny=24, nx=36, rows_per_chunk=2, consolidated=False
    )
    root = zarr.open_group(store.data, mode="a", zarr_format=2)
    names = [f"{v}_{k}" for v in DEPTH_VARIABLES for k in range(levels)]
    for name, codec in zip((*SURFACE_VARIABLES, *names), codecs, strict=False):
        values, chunks = store.truth[name], (2, 24, 36)
        write_array(
            root, name, values, ("time", "y", "x"), chunks=chunks, codec=codec or "none",
            fill_value=np.nan,
        )  # fmt: skip
    source = store.open()
    assert len(source.channels) > 16
    assert_raw_values(store, source)
    check(source)


def test_eighty_flat_arrays(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, rows=9, levels=19, ny=2, nx=3)
    shard = check(store.open(prognostic="thermo_dynamic_all", boundary="tau_hfds"))
    assert len(shard.source.channels) == 80
    with NativeLoader([shard], [[0]]) as loader:
        list(loader)
        # 6 rows of 77 arrays and 4 of 3; a plane of 2 x 3 floats
        assert loader.stats()["reads"] == 6 * 77 + 4 * 3
        assert loader.stats()["bytes_read"] == (6 * 77 + 4 * 3) * 24


def test_rows_of_a_subset_are_found_by_their_dates(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, rows=20, rows_per_chunk=3, codec="zstd")
    source = store.open()
    subset = source.between(source.time[4], source.time[18]).between(
        source.time[6], source.time[17]
    )
    shard = check(subset)
    with NativeLoader([shard], [[0]]) as loader:
        (batch,) = loader
    assert batch.times[0].tolist() == source.time[6:12].tolist()
    zos = subset.normalize(store.expected([6], ["zos"]), ["zos"])[0, 0]
    wet = store.masks["zos"]
    last = np.asarray(batch[0].prognostic)[0, len(shard.prognostic) - 1]
    assert np.array_equal(bits(last)[wet], bits(zos)[wet])


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("prefetch_batches", [1, 5])
def test_own_memory_and_prefetch_change_no_value(
    tmp_path: Path, writable: bool, prefetch_batches: int
) -> None:
    store = tiny_store(tmp_path, layout="compact", codec="blosc-lz4")
    shard = TrainingShard(store.open(), hist=1, steps=2)
    schedule = [[0, 1], [3, 4], [1, 2], [2, 3], [0, 1], [5, 6], [5, 6]]
    cpu = list(CpuLoader([shard], schedule, writable=writable))
    options: dict[str, Any] = {"writable": writable, "prefetch_batches": prefetch_batches}
    for make in (NativeLoader, numpy_batches):
        with make([shard], schedule, **options) as loader:
            assert_same_batches(list(loader), cpu)
            assert_same_batches(list(loader), cpu)  # a second pass reuses the memory of the first


def test_labels_of_another_store_grid_and_layout(tmp_path: Path) -> None:
    coarse = tiny_store(tmp_path / "coarse", rows=14, codec="blosc-lz4", seed=1)
    fine = tiny_store(
        tmp_path / "fine", rows=14, layout="compact", ny=9, nx=12, rows_per_chunk=2, seed=2, shift=5
    )
    for options in ({}, {"hist": 0, "steps": 3}, {"stride": 2, "normalize_before_mask": False}):
        check(coarse.open(), labels=fine.open(), **options)


def test_shards_of_different_grids_take_turns(tmp_path: Path) -> None:
    small = tiny_store(tmp_path / "small", seed=1).open()
    large = tiny_store(tmp_path / "large", layout="compact", ny=9, nx=12, seed=2).open()
    shards = [
        TrainingShard(small, hist=1, steps=2, id="a"),
        TrainingShard(large, hist=0, steps=2, id="b", masked_fill_value=-2.0),
        TrainingShard(small, hist=1, steps=2, stride=2, id="c", normalize_before_mask=False),
    ]
    a, b = len(shards[0]), len(shards[1])
    schedule = [[0, 3], [a, a + 2], [a + b], [1, 2], [a + b - 1], [a + b + 1]]
    cpu = list(CpuLoader(shards, schedule))
    with NativeLoader(shards, schedule, prefetch_batches=3) as loader:
        assert_same_batches(list(loader), cpu)


def test_windows_skip_holes_of_the_record(tmp_path: Path) -> None:
    days = [2.5 + 5 * k for k in range(20) if k not in (5, 11)]
    store = tiny_store(tmp_path, rows=18, times=days, rows_per_chunk=4, codec="zstd")
    shard = TrainingShard(store.open(), hist=1, steps=1, max_gap="5D")
    # Runs of 5, 5 and 8 rows: 2, 2 and 5 windows of 4 rows.
    assert len(shard) == 9
    schedule = [[0, 1], [2, 3], [4, 8]]
    cpu = list(CpuLoader([shard], schedule))
    with NativeLoader([shard], schedule) as loader:
        assert_same_batches(list(loader), cpu)


def test_every_rank_of_a_distributed_schedule(tmp_path: Path) -> None:
    shard = TrainingShard(tiny_store(tmp_path).open(), hist=1, steps=1)
    assert len(shard) == 9
    for rank in range(2):
        sampler = DistributedBatchSampler(
            [shard], batch_size=3, rank=rank, world_size=2, shuffle=True, drop_last=False, seed=3
        )
        native, cpu = NativeLoader([shard], sampler), CpuLoader([shard], sampler)
        for epoch in (1, 2):
            native.set_epoch(epoch)
            batches = list(native)
            assert_same_batches(batches, list(cpu))
            # Neighbouring samples share memory: 3 + 4 - 1 rows.
            assert [batch.bases[0].shape[0] for batch in batches] == [6, 6]
            padded = [not batch.valid.all() for batch in batches]
            assert padded == sampler.padded()
        native.close()
