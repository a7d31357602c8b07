"""What NativeLoader makes of its options: ranges, memory limit, pools, deadline."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from niskin import (
    BatchSampler,
    NativeLoader,
    Pool,
    TrainingShard,
    UsageError,
    numpy_batches,
)
from niskin.pool import shared_pool
from stores import TinyStore, tiny_store

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
