"""The core's own counts keep its objects alive: a worker never drops a Python reference, for which
it would need the GIL while the thread that holds the GIL may wait for the worker.
"""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest

from niskin import TrainingShard, numpy_batches
from stores import tiny_store

pytestmark = [pytest.mark.notorch, pytest.mark.timeout(60)]


def shard_in(path: Path) -> TrainingShard:
    source = tiny_store(path, levels=1, rows=40).open()
    return TrainingShard(source, hist=1, steps=1)


def test_batches_in_the_making_take_no_python_reference(tmp_path: Path) -> None:
    with numpy_batches([shard_in(tmp_path)], [[0], [1], [2]], prefetch_batches=3) as loader:
        next(iter(loader))  # field sets and arrays exist now
        held = [*loader.field_sets._sets.values(), *loader.field_sets._arrays.values()]
        before = [sys.getrefcount(thing) for thing in held]
        iterator = iter(loader)  # three batches are under way
        assert [sys.getrefcount(thing) for thing in held] == before
        assert len(list(iterator)) == 3


def test_asking_for_counts_while_batches_end_does_not_hang(tmp_path: Path) -> None:
    schedule = [[k % 30] for k in range(1500)]
    with numpy_batches([shard_in(tmp_path)], schedule, decode_threads=4) as loader:
        stop = threading.Event()
        asked = 0

        def ask() -> None:
            nonlocal asked
            while not stop.is_set():
                loader.pool.stats()  # waits for the pool's lock
                asked += 1

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            assert sum(1 for _ in loader) == 1500
        finally:
            stop.set()
            thread.join()
    assert asked > 0
