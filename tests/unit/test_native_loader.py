"""What NativeLoader itself decides: options, memory limit, pools, schedule, statistics, refusals.

Values are the business of tests/parity, the ends of a pass that of tests/lifecycle.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from niskin import (
    BatchSampler,
    DistributedBatchSampler,
    FormatError,
    NativeLoader,
    Pool,
    TrainingShard,
    UsageError,
    numpy_batches,
)
from niskin.pool import shared_pool
from stores import TinyStore, change_json, tiny_store

READ_BUFFERS = 1 << 20  # of a pool with a small limit


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("store"), rows=20, levels=2)


def shard_in(store: TinyStore, **options: Any) -> TrainingShard:
    source = store.open(prognostic=("thetao_0", "thetao_1", "zos"), boundary=("hfds",))
    return TrainingShard(source, **({"hist": 1, "steps": 2} | options))


@pytest.fixture(scope="module")
def shard(store: TinyStore) -> TrainingShard:
    return shard_in(store)


# One sample of `shard`: six rows of three prognostic and four of one boundary channel, 4 x 6 cells.
SAMPLE_BYTES = (6 * 3 + 4) * 4 * 6 * 4


class Stream:
    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prefetch_batches": 0}, "prefetch_batches: got 0, expected at least 1"),
        ({"prefetch_batches": -2}, "prefetch_batches: got -2, expected at least 1"),
        ({"max_concurrent_reads": 0}, "max_concurrent_reads: got 0, expected at least 1"),
        ({"decode_threads": 0}, "decode_threads: got 0, expected at least 1"),
        ({"memory_limit": 0}, "memory_limit: got 0, expected at least 1"),
        ({"prefetch_batches": 2.5}, "prefetch_batches: got 2.5, expected a whole number"),
        ({"prefetch_batches": 2**31}, "prefetch_batches: got 2147483648, expected at most"),
    ],
)
def test_options_out_of_range_are_refused(
    shard: TrainingShard, options: dict[str, Any], message: str
) -> None:
    for make in (NativeLoader, numpy_batches):
        with pytest.raises(UsageError, match=f"^{message}"):
            make([shard], [[0]], **options)


def test_shards_and_sampler_are_checked(shard: TrainingShard) -> None:
    with pytest.raises(UsageError, match="NativeLoader: shards: got none, expected at least one"):
        NativeLoader([], [[0]])
    with pytest.raises(TypeError, match="sampler: got Stream, expected an iterable of index lists"):
        NativeLoader([shard], Stream())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="expected lists of sample indices"):
        NativeLoader([shard], [0, 1])
    with pytest.raises(TypeError, match="unexpected keyword argument 'num_workers'"):
        numpy_batches([shard], [[0]], num_workers=2)


def test_a_pool_excludes_options_of_a_pool(shard: TrainingShard) -> None:
    with Pool() as pool, pytest.raises(UsageError) as caught:
        NativeLoader([shard], [[0]], pool=pool, decode_threads=2, memory_limit=1 << 30)
    assert str(caught.value) == (
        "NativeLoader: got pool and decode_threads, memory_limit, expected one or the other"
    )


@pytest.mark.skipif(torch.cuda.is_available(), reason="needs a machine without a GPU")
@pytest.mark.parametrize("options", [{"device": "cuda"}, {"pin_memory": True}])
def test_a_gpu_that_is_not_there_is_refused(shard: TrainingShard, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match="expected a CUDA device"):
        NativeLoader([shard], [[0]], **options)


@pytest.mark.parametrize("options", [{"device": "cuda"}, {"pin_memory": True}])
def test_numpy_batches_stay_in_host_memory(shard: TrainingShard, options: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=r"numpy_batches: got .*, expected host memory"):
        numpy_batches([shard], [[0]], **options)


@pytest.mark.parametrize("make", [NativeLoader, numpy_batches])
def test_a_memory_limit_below_one_batch_is_refused_with_both_numbers(
    shard: TrainingShard, make: Any
) -> None:
    sampler = BatchSampler([shard], batch_size=3)
    need = 3 * SAMPLE_BYTES + READ_BUFFERS
    with pytest.raises(UsageError) as caught:
        make([shard], sampler, memory_limit=need - 1)
    text = str(caught.value)
    assert f"memory_limit: got {need - 1} bytes, expected at least {need}: one batch" in text
    assert f"is {3 * SAMPLE_BYTES} bytes and read buffers take {READ_BUFFERS}" in text
    assert "hint:  a smaller batch_size or fewer steps, or a larger memory_limit" in text
    with pytest.warns(UserWarning, match="prefetch shrinks"):
        loader = make([shard], sampler, memory_limit=need)
    with loader:
        assert len(list(loader)) == len(sampler)


def test_the_largest_batch_of_a_plain_schedule_counts(shard: TrainingShard) -> None:
    with pytest.raises(UsageError, match=f"one batch is {4 * SAMPLE_BYTES} bytes"):
        NativeLoader([shard], [[0], [1, 5, 3, 4], [2]], memory_limit=READ_BUFFERS)


def test_prefetch_shrinks_with_a_warning_and_never_passes_the_limit(shard: TrainingShard) -> None:
    schedule = [[k] for k in range(15)]
    limit = READ_BUFFERS + 2 * SAMPLE_BYTES
    with pytest.warns(UserWarning, match="prefetch") as caught:
        loader = NativeLoader([shard], schedule, prefetch_batches=5, memory_limit=limit)
    (warning,) = caught
    assert str(warning.message) == (
        f"NativeLoader: prefetch_batches: got 5, but memory_limit {limit} has room for 2 of "
        f"{SAMPLE_BYTES} bytes: prefetch shrinks"
    )
    assert warning.filename == __file__
    with loader:
        for batch in loader:
            assert loader.pool.stats()["reserved_bytes"] <= 2 * SAMPLE_BYTES
            del batch
        assert loader.stats()["batches"] == 15
        # Two in the making and the one in use.
        assert loader.pool.stats()["slab_bytes_peak"] <= 3 * (SAMPLE_BYTES + 64)


def test_prefetch_is_bounded_by_batches(shard: TrainingShard) -> None:
    with (
        Pool() as pool,
        NativeLoader([shard], [[k] for k in range(9)], prefetch_batches=3, pool=pool) as loader,
    ):
        iterator = iter(loader)
        assert pool.stats()["reserved_bytes"] == 3 * SAMPLE_BYTES
        next(iterator)
        assert pool.stats()["reserved_bytes"] == 3 * SAMPLE_BYTES


def test_a_default_limit_grows_to_two_batches(
    shard: TrainingShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("niskin.machine.memory_limit", lambda: 1000)
    with Pool() as pool, warnings.catch_warnings():
        warnings.simplefilter("error")
        with NativeLoader([shard], [[0], [1]], pool=pool) as loader:
            assert pool.memory_limit == READ_BUFFERS + 2 * SAMPLE_BYTES
            assert len(list(loader)) == 2


def test_a_pool_of_its_own_ends_with_the_loader_and_a_shared_one_does_not(
    shard: TrainingShard,
) -> None:
    own = NativeLoader([shard], [[0]], decode_threads=1)
    assert own.pool is not shared_pool()
    own.close()
    assert own.pool.closed
    with Pool() as pool:
        for _ in range(2):
            with NativeLoader([shard], [[0]], pool=pool) as loader:
                assert len(list(loader)) == 1
        assert not pool.closed
    with NativeLoader([shard], [[0]]) as loader:
        assert loader.pool is shared_pool()
    assert not shared_pool().closed


def test_a_pool_of_its_own_ends_when_the_loader_cannot_be_made(
    shard: TrainingShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[Pool] = []
    monkeypatch.setattr(Pool, "close", lambda pool, deadline_s: closed.append(pool))
    with pytest.raises(UsageError, match="memory_limit"):
        NativeLoader([shard], [[0]], memory_limit=1)
    assert len(closed) == 1


class Deadlines:
    """A core stream that is asked to close."""

    def __init__(self) -> None:
        self.asked: list[float] = []

    def close(self, deadline_s: float) -> None:
        self.asked.append(deadline_s)


def test_the_deadline_of_close_reaches_stream_and_pool(
    shard: TrainingShard, monkeypatch: pytest.MonkeyPatch
) -> None:
    pools: list[float] = []
    close = Pool.close

    def noted(pool: Pool, deadline_s: float = 2.0) -> int:
        pools.append(deadline_s)
        return close(pool, deadline_s)

    monkeypatch.setattr(Pool, "close", noted)
    for deadline_s, most_s in ((0.25, 0.25), (30, 30.0), (None, 2.0)):
        loader = NativeLoader([shard], [[0], [1]], decode_threads=1)
        iterator: Any = iter(loader)
        stream = Deadlines()
        iterator._core.close(2.0)
        iterator._core = stream
        loader.close() if deadline_s is None else loader.close(deadline_s)
        (of_stream,), of_pool = stream.asked, pools.pop()
        # One deadline for both: what the stream took is not there for the pool.
        assert most_s - 1 < of_pool <= of_stream <= most_s
        loader.close()
        pools.clear()
        assert len(stream.asked) == 1


def test_length_epochs_and_the_snapshot_of_the_schedule(shard: TrainingShard) -> None:
    sampler = BatchSampler([shard], batch_size=4, shuffle=True, seed=15)
    with NativeLoader([shard], sampler) as loader:
        assert len(loader) == len(sampler) == len(sampler.schedule(0))
        iterator = iter(loader)
        assert len(iterator) == len(sampler)
        loader.set_epoch(1)
        assert [b.indices.tolist() for b in iterator] == sampler.schedule(0)
        assert [b.indices.tolist() for b in loader] == sampler.schedule(1)
    with NativeLoader([shard], [[0]]) as loader:
        loader.set_epoch(4)  # a list does not listen


def test_an_empty_schedule_is_legal(shard: TrainingShard) -> None:
    for make in (NativeLoader, numpy_batches):
        with make([shard], []) as loader:
            assert (len(loader), list(loader), list(loader)) == (0, [], [])


def test_padded_samples_are_marked(store: TinyStore) -> None:
    source = store.open(prognostic=("zos",), boundary=("hfds",))
    shard = TrainingShard(source.between(source.time[0], source.time[9]), hist=1, steps=2)
    assert len(shard) == 5
    sampler = DistributedBatchSampler([shard], batch_size=2, rank=1, world_size=2)
    with NativeLoader([shard], sampler) as loader:
        first, second = loader
    assert first.valid.tolist() == [True, True]
    assert (second.indices.tolist(), second.valid.tolist()) == ([0, 1], [False, False])


def test_statistics_count_work_by_hand(shard: TrainingShard) -> None:
    with Pool() as pool, NativeLoader([shard], [[0, 3], [5, 9]], pool=pool) as loader:
        batches = list(loader)
        stats = loader.stats()
        assert set(stats) == {
            "batches", "samples", "bytes_delivered", "bytes_unique", "wait_s", "bad_values",
            "reads", "bytes_read", "decodes", "chunks", "absent_chunks",
            "read_s", "decode_s", "token_wait_s", "pool",
        }  # fmt: skip
        assert stats["pool"] == pool.stats()
    plane = 4 * 6 * 4
    # Samples 0 and 3 share rows 3, 4 and 5 (boundary: 3); samples 5 and 9 share rows 9 and 10.
    planes = [(9 * 3 + 7 * 1), (10 * 3 + 8 * 1)]
    assert [batch.stats["chunks"] for batch in batches] == planes
    assert (stats["batches"], stats["samples"]) == (2, 4)
    assert stats["chunks"] == stats["reads"] == sum(planes)
    assert stats["bytes_read"] == stats["bytes_unique"] == sum(planes) * plane
    assert stats["bytes_delivered"] == 2 * 2 * 2 * 2 * (3 + 1 + 3) * plane
    assert (stats["absent_chunks"], stats["bad_values"]) == (0, 0)
    assert stats["wait_s"] >= 0
    assert set(batches[0].stats) == {
        "load_s", "wait_s", "reads", "bytes_read", "decodes", "chunks", "absent_chunks",
        "read_s", "decode_s", "token_wait_s",
    }  # fmt: skip


def test_statistics_are_those_of_this_loader_alone(shard: TrainingShard) -> None:
    with Pool() as pool:
        first, second = (NativeLoader([shard], [[0]], pool=pool) for _ in range(2))
        list(first)
        assert second.stats()["reads"] == 0
        assert second.stats()["pool"]["reads"] == first.stats()["reads"] > 0


def test_a_batch_that_mixes_shards_is_refused_in_its_turn(store: TinyStore) -> None:
    shards = [shard_in(store, id=f"train-{number}") for number in (0, 1)]
    n = len(shards[0])
    with NativeLoader(shards, [[n, n + 1], [n - 1, n], [0]]) as loader:
        iterator = iter(loader)
        assert next(iterator).indices.tolist() == [n, n + 1]
        with pytest.raises(UsageError) as caught:
            next(iterator)
        assert str(caught.value) == (
            f"batch [{n - 1}, {n}]: got samples of shards 'train-0' and 'train-1', expected one "
            "shard per batch"
        )
        assert list(iterator) == []


@pytest.mark.parametrize("index", [-1, 15, 2**62])
def test_an_index_out_of_range_is_raised_in_its_turn(shard: TrainingShard, index: int) -> None:
    assert len(shard) == 15
    with NativeLoader([shard], [[0], [1], [14, index], [2]]) as loader:
        for _ in range(2):  # a new pass starts clean
            iterator = iter(loader)
            assert [next(iterator).indices.tolist() for _ in range(2)] == [[0], [1]]
            with pytest.raises(IndexError) as caught:
                next(iterator)
            assert str(caught.value) == f"sample index {index} is out of range for 15 samples"
            assert list(iterator) == []


def test_an_empty_batch_is_refused_in_its_turn(shard: TrainingShard) -> None:
    with NativeLoader([shard], [[0], []]) as loader:
        iterator = iter(loader)
        next(iterator)
        with pytest.raises(UsageError, match="got no sample index, expected at least one"):
            next(iterator)


def test_indices_that_are_no_integers_are_refused(shard: TrainingShard) -> None:
    batches: Any = [[0.5]]
    with NativeLoader([shard], batches) as loader, pytest.raises(TypeError, match="got float64"):
        list(loader)


def test_numpy_batches_are_read_only(shard: TrainingShard) -> None:
    with numpy_batches([shard], [[0, 1]]) as loader:
        (batch,) = loader
    for step in batch:
        for array in step:
            assert type(array) is np.ndarray
            assert array.dtype == np.float32
            assert not array.flags.writeable
            with pytest.raises(ValueError, match="read-only"):
                array[...] = 0


def test_writable_numpy_batches_own_each_tensor(shard: TrainingShard) -> None:
    with Pool() as pool:
        with numpy_batches([shard], [[0, 1]], writable=True, pool=pool) as loader:
            (batch,) = loader
        kept = np.array(batch[1].prognostic)
        label = batch[0].label
        label[...] = 7
        np.testing.assert_array_equal(batch[1].prognostic, kept)
        assert label.flags.c_contiguous
        del batch
        gc.collect()
        assert pool.stats()["slab_bytes_live"] > 0
        assert (label == 7).all()
        del label
        gc.collect()
        assert pool.stats()["slab_bytes_live"] == 0


def test_a_loader_is_not_a_dataset_and_does_not_travel(shard: TrainingShard) -> None:
    with NativeLoader([shard], [[0], [1]]) as loader:
        for attempt in (lambda: pickle.dumps(loader), lambda: loader[0]):
            with pytest.raises(UsageError, match="dataset of a DataLoader or sent to another"):
                attempt()
        inner: Any = torch.utils.data.DataLoader(
            loader,  # type: ignore[arg-type]
            num_workers=1,
            batch_size=None,
            multiprocessing_context="fork",
        )
        with pytest.raises(UsageError, match=r"hint:  for batch in loader: …"):
            next(iter(inner))
        assert len(list(loader)) == 2


NUMPY_ALONE = """
import sys
sys.modules["torch"] = None
import niskin
path = sys.argv[1]
source = niskin.open_om4(
    f"{path}/OM4.zarr", f"{path}/OM4_means.zarr", f"{path}/OM4_stds.zarr",
    prognostic=["zos"], boundary=["hfds"],
)
shard = niskin.TrainingShard(source, hist=0, steps=1)
with niskin.numpy_batches([shard], niskin.BatchSampler([shard], batch_size=5)) as loader:
    batches = list(loader)
print(len(batches), batches[0][0].prognostic.shape, batches[0].context.label_mask.shape)
try:
    niskin.NativeLoader([shard], [[0]])
except ImportError as error:
    print("NativeLoader:", type(error).__name__)
"""


def test_numpy_batches_need_no_torch(store: TinyStore) -> None:
    result = subprocess.run(
        [sys.executable, "-c", NUMPY_ALONE, str(store.data.parent)],
        capture_output=True, text=True, timeout=60, check=False, env=os.environ | {},
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [
        "4 (5, 1, 4, 6) (1, 4, 6)",
        "NativeLoader: ModuleNotFoundError",
    ]


def test_a_store_that_shrank_under_its_dataset_is_named(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, rows=8, levels=1, consolidated=False)
    shard = TrainingShard(store.open(prognostic=("zos",), boundary=("hfds",)), hist=0, steps=1)
    for name in ("zos", "hfds"):
        change_json(store.data / name / ".zarray", shape=[6, 4, 6])
    with pytest.raises(FormatError) as caught:
        NativeLoader([shard], [[0]])
    text = str(caught.value)
    assert "time: got 8 or more dates, expected as many as the 6 rows of zos" in text
    assert f"  store: {store.data}" in text
