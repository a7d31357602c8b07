from __future__ import annotations

import gc
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from niskin import Pool, TrainingShard, UsageError, machine, numpy_batches, pool
from process import threads
from stores import tiny_store


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> TrainingShard:
    return TrainingShard(tiny_store(tmp_path_factory.mktemp("store")).open(), hist=0, steps=1)


@pytest.fixture
def no_shared_pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(pool, "_shared", None)
    yield
    if pool._shared is not None:
        pool._shared.close()


def test_options_are_kept_and_shown() -> None:
    with Pool(max_concurrent_reads=3, decode_threads=2, memory_limit=1 << 20) as own:
        assert repr(own) == "Pool(max_concurrent_reads=3, decode_threads=2, memory_limit=1048576)"
        assert (own.max_concurrent_reads, own.decode_threads, own.memory_limit) == (3, 2, 1 << 20)


def test_defaults_are_what_the_machine_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "decode_threads", lambda: 7)
    monkeypatch.setattr(machine, "memory_limit", lambda: 123 << 20)
    with Pool() as own:
        assert (own.max_concurrent_reads, own.decode_threads) == (32, 7)
        assert own.memory_limit == 123 << 20


@pytest.mark.parametrize("option", ["max_concurrent_reads", "decode_threads", "memory_limit"])
@pytest.mark.parametrize(
    ("value", "message"),
    [
        (0, "{}: got 0, expected at least 1"),
        (-3, "{}: got -3, expected at least 1"),
        (1.5, "{}: got 1.5, expected a whole number, at least 1"),
        ("4", "{}: got '4', expected a whole number, at least 1"),
    ],
)
def test_options_out_of_range_are_refused(option: str, value: Any, message: str) -> None:
    with pytest.raises(UsageError, match="^" + message.format(option)):
        Pool(**{option: value})


@pytest.mark.parametrize(
    ("option", "value"),
    [("max_concurrent_reads", 2**31), ("decode_threads", 2**40), ("memory_limit", 2**64)],
)
def test_numbers_that_the_core_cannot_hold_are_refused(option: str, value: int) -> None:
    with pytest.raises(UsageError, match=f"^{option}: got {value}, expected at most "):
        Pool(**{option: value})


def test_threads_start_with_the_first_batch_and_end_at_close(shard: TrainingShard) -> None:
    own = Pool(max_concurrent_reads=4, decode_threads=1)
    assert own.stats()["threads"] == 0
    loader = numpy_batches([shard], [[0], [1]], pool=own)
    assert own.stats()["threads"] == 0
    assert len(list(loader)) == 2
    assert 1 <= own.stats()["threads"] <= 4
    assert own.close() == 0
    assert own.stats()["threads"] == 0
    assert own.close() == 0


def test_a_loader_on_a_closed_pool_is_refused(shard: TrainingShard) -> None:
    own = Pool()
    loader = numpy_batches([shard], [[0], [1]], pool=own)
    iterator = iter(loader)
    own.close()
    with pytest.raises(UsageError, match="closed pool, expected an open"):
        list(iterator)
    with pytest.raises(UsageError, match="after close, expected an open pool"):
        next(iter(loader))


def test_work_and_memory_are_counted_for_all_loaders(shard: TrainingShard) -> None:
    with Pool() as own:
        batches = [next(iter(numpy_batches([shard], [[k]], pool=own))) for k in range(2)]
        counts = own.stats()
        assert counts["reads"] == counts["chunks"] == sum(b.stats["chunks"] for b in batches) > 0
        assert counts["slab_bytes_delivered"] == counts["slab_bytes_live"] > 0
        assert counts["slab_allocations"] == 2
        held = counts["slab_bytes_live"]
        batches.pop()
        gc.collect()
        assert own.stats()["slab_bytes_live"] == held // 2
        assert own.stats()["slab_bytes_idle"] == held // 2
        batches.clear()
        gc.collect()
    assert own.stats()["slab_bytes_live"] == own.stats()["slab_bytes_idle"] == 0


@pytest.mark.parametrize("deadline_s", [-1, float("nan"), -float("inf")])
def test_a_deadline_below_zero_is_refused(shard: TrainingShard, deadline_s: float) -> None:
    with Pool() as own:
        loader = numpy_batches([shard], [[0], [1]], pool=own)
        iterator = iter(loader)
        for thing in (own, loader, iterator):
            with pytest.raises(UsageError, match=r"deadline_s: got .*, expected 0 or more"):
                thing.close(deadline_s=deadline_s)
        assert len(list(iterator)) == 2  # nothing was closed


@pytest.mark.parametrize("deadline_s", [0, 1e300, float("inf")])
def test_any_other_deadline_is_kept(shard: TrainingShard, deadline_s: float) -> None:
    own = Pool()
    loader = numpy_batches([shard], [[0]], pool=own)
    list(loader)
    loader.close(deadline_s=deadline_s)
    own.close(deadline_s=deadline_s)
    assert own.closed


@pytest.mark.usefixtures("no_shared_pool")
def test_loaders_share_the_pool_of_the_process(shard: TrainingShard) -> None:
    first, second = (numpy_batches([shard], [[0]]) for _ in range(2))
    assert first.pool is second.pool is pool.shared_pool()
    first.close()
    assert len(list(second)) == 1  # a shared pool outlives its loaders


@pytest.mark.usefixtures("no_shared_pool")
def test_a_closed_shared_pool_is_replaced(shard: TrainingShard) -> None:
    old = pool.shared_pool()
    old.close()
    assert pool.shared_pool() is not old
    assert len(list(numpy_batches([shard], [[0]]))) == 1


@pytest.mark.usefixtures("no_shared_pool")
def test_a_forked_process_is_refused_the_old_pool_and_makes_its_own(shard: TrainingShard) -> None:
    old = pool.shared_pool()
    assert len(list(numpy_batches([shard], [[0]]))) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        done = 0
        try:
            old.stats()
        except UsageError as error:
            done += "used after fork" in str(error)
        done += old.close() == 0
        done += len(list(numpy_batches([shard], [[0], [1]]))) == 2
        os._exit(done)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 3
    assert len(list(numpy_batches([shard], [[0]]))) == 1


def test_a_pool_that_is_let_go_ends_its_threads(shard: TrainingShard) -> None:
    before = threads()
    own = Pool(max_concurrent_reads=4)
    loader = numpy_batches([shard], [[0], [1]], pool=own)
    list(loader)
    del own, loader
    gc.collect()
    assert threads() <= before


def test_shards_open_lazily(tmp_path: Path) -> None:
    store = tiny_store(tmp_path)
    shard = TrainingShard(store.open(), hist=0, steps=1)
    with Pool() as own:
        numpy_batches([shard], [[0]], pool=own)
        assert own.stats()["reads"] == 0
