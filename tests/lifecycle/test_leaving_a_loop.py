"""However a loop over batches ends, no thread, file or slab stays behind."""

from __future__ import annotations

import gc
import threading
import warnings
from typing import Any

import numpy as np
import pytest

from niskin import Pool, TrainingShard, UsageError, numpy_batches
from process import eventually, open_files, threads
from stores import tiny_store

pytestmark = [pytest.mark.notorch, pytest.mark.timeout(60)]

SCHEDULE = [[k] for k in range(6)]


@pytest.fixture(scope="module")
def shard(tmp_path_factory: pytest.TempPathFactory) -> TrainingShard:
    source = tiny_store(tmp_path_factory.mktemp("store"), levels=1, rows=12).open()
    return TrainingShard(source, hist=1, steps=1)


def nothing_held(pool: Pool) -> bool:
    counts = pool.stats()
    return counts["slab_bytes_live"] == 0 and counts["reserved_bytes"] == 0


def first_values(batch: Any) -> np.ndarray[Any, Any]:
    return np.array(batch[0].prognostic)


def test_break_a_hundred_times_leaves_no_thread_file_or_slab(shard: TrainingShard) -> None:
    before = threads(), open_files()
    with Pool(decode_threads=2) as pool, numpy_batches([shard], SCHEDULE, pool=pool) as loader:
        for _ in range(100):
            for batch in loader:
                assert batch[0].prognostic.shape[0] == 1
                break
        del batch
        assert loader.stats()["batches"] == 100
        gc.collect()
        loader.close()
        assert eventually(lambda: nothing_held(pool))
    assert eventually(lambda: threads() == before[0])
    del loader  # it keeps the store open
    gc.collect()
    assert open_files() == before[1]


def test_deleting_the_iterator_ends_it(shard: TrainingShard) -> None:
    with Pool() as pool, numpy_batches([shard], SCHEDULE, pool=pool) as loader:
        iterator = iter(loader)
        next(iterator)
        del iterator
        gc.collect()
        assert eventually(lambda: nothing_held(pool))


def train(loader: Any) -> None:
    for batch in loader:
        raise FloatingPointError(batch.indices)


def test_an_exception_in_the_training_step_goes_through_and_leaves_nothing(
    shard: TrainingShard,
) -> None:
    with Pool() as pool:
        loader = numpy_batches([shard], SCHEDULE, pool=pool)
        with pytest.raises(FloatingPointError, match=r"\[0\]"), loader:
            train(loader)
        with pytest.raises(UsageError, match="after close"):
            iter(loader)
        gc.collect()
        assert eventually(lambda: nothing_held(pool))


def test_asking_for_the_first_batch_again_and_again_gives_the_first_batch(
    shard: TrainingShard,
) -> None:
    with numpy_batches([shard], SCHEDULE) as loader:
        expected = first_values(next(iter(loader)))
        for _ in range(50):
            np.testing.assert_array_equal(first_values(next(iter(loader))), expected)


def test_a_new_iterator_ends_the_old_one(shard: TrainingShard) -> None:
    with numpy_batches([shard], SCHEDULE) as loader:
        old = iter(loader)
        next(old)
        new = iter(loader)
        assert list(old) == []
        assert [b.indices.tolist() for b in new] == SCHEDULE


def test_epochs_in_a_row_give_the_same_batches(shard: TrainingShard) -> None:
    with numpy_batches([shard], SCHEDULE) as loader:
        epochs = [[first_values(batch) for batch in loader] for _ in range(3)]
    np.testing.assert_array_equal(epochs[0], epochs[1])
    np.testing.assert_array_equal(epochs[0], epochs[2])


def test_close_is_idempotent_and_ends_a_full_queue(shard: TrainingShard) -> None:
    loader = numpy_batches([shard], SCHEDULE, prefetch_batches=5)
    iterator = iter(loader)
    next(iterator)
    loader.close()
    loader.close(deadline_s=0.1)
    assert list(iterator) == []
    with pytest.raises(UsageError, match="after close"):
        iter(loader)


def test_kept_batches_stay_intact_and_outlive_loader_and_pool(shard: TrainingShard) -> None:
    pool = Pool()
    with numpy_batches([shard], SCHEDULE, pool=pool) as loader:
        kept = list(loader)
        copies = [first_values(batch) for batch in kept]
    pool.close()
    del loader, pool
    gc.collect()
    for batch, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(batch[0].prognostic, copy)
    assert len({copy.tobytes() for copy in copies}) == len(SCHEDULE)  # none was overwritten


def test_the_last_view_may_die_in_another_thread(shard: TrainingShard) -> None:
    with Pool() as pool:
        with numpy_batches([shard], SCHEDULE, pool=pool) as loader:
            views = [batch[0].label for batch in loader]
        assert pool.stats()["slab_bytes_delivered"] > 0
        thread = threading.Thread(target=views.clear)
        thread.start()
        thread.join()
        gc.collect()
        assert eventually(lambda: nothing_held(pool))


def test_the_collector_of_another_thread_may_end_an_iterator(shard: TrainingShard) -> None:
    with Pool() as pool:
        for _ in range(20):
            loader = numpy_batches([shard], SCHEDULE, pool=pool)
            iterator = iter(loader)
            next(iterator)
            cycle: list[Any] = [iterator, loader]
            cycle.append(cycle)
            del loader, iterator, cycle
            collector = threading.Thread(target=gc.collect)
            collector.start()
            collector.join()
        assert eventually(lambda: nothing_held(pool))


def test_a_thousand_short_passes_do_not_grow(shard: TrainingShard) -> None:
    with Pool(decode_threads=2) as pool:
        before: tuple[int, int, int] | None = None
        for repeat in range(1000):
            loader = numpy_batches([shard], SCHEDULE[:2], pool=pool)
            next(iter(loader))
            loader.close()
            if repeat == 20:
                before = threads(), open_files(), pool.stats()["slab_allocations"]
        assert before is not None
        assert threads() <= before[0] + 32  # at most max_concurrent_reads
        assert open_files() <= before[1] + 8
        assert pool.stats()["slab_allocations"] <= before[2] + 8


def test_batches_held_beyond_the_limit_are_reported_once(shard: TrainingShard) -> None:
    limit = (1 << 20) + 64 * 1024  # read buffers, and some batches of a few kilobytes
    kept: list[Any] = []
    with (
        numpy_batches([shard], SCHEDULE, memory_limit=limit) as loader,
        warnings.catch_warnings(record=True) as caught,
    ):
        warnings.simplefilter("always")
        while loader.pool.stats()["slab_bytes_delivered"] < 2 * limit:
            kept.extend(loader)
    assert [str(w.message) for w in caught if "still referenced" in str(w.message)] == [
        str(w.message) for w in caught
    ]
    assert len(caught) == 1


@pytest.mark.parametrize("reads", [1, 2, 3, 64])
def test_four_loaders_on_one_pool_complete_with_any_number_of_threads(
    shard: TrainingShard, reads: int
) -> None:
    """Nothing waits for a thread that waits for it."""
    with Pool(max_concurrent_reads=reads, decode_threads=min(reads, 2)) as pool:
        loaders = [
            numpy_batches([shard], SCHEDULE, pool=pool, prefetch_batches=1) for _ in range(4)
        ]
        for batches in zip(*loaders, strict=True):
            expected = first_values(batches[0])
            for batch in batches[1:]:
                np.testing.assert_array_equal(first_values(batch), expected)
        for loader in loaders:
            loader.close()
