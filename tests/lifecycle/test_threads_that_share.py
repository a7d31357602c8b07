"""An iterator serves one thread at a time: a second one is refused, and no batch is mixed up."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from niskin import TrainingShard, UsageError, numpy_batches
from stores import tiny_store

pytestmark = [pytest.mark.notorch, pytest.mark.timeout(60)]


@pytest.fixture
def eager_threads() -> Iterator[None]:
    usual_s = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(usual_s)


@pytest.mark.usefixtures("eager_threads")
def test_batches_taken_by_several_threads_hold_their_own_samples(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, levels=1, rows=12)
    shard = TrainingShard(store.open(), hist=0, steps=1)
    schedule = [[(7 * k) % 11] for k in range(60)]
    with numpy_batches([shard], [[k] for k in range(11)]) as loader:
        expected = [np.array(batch[0].prognostic) for batch in loader]
    delivered: list[Any] = []
    refused: list[str] = []

    def take(iterator: Any) -> None:
        while True:
            try:
                delivered.append(next(iterator))
            except UsageError as error:
                refused.append(str(error))
                time.sleep(0.001)
            except StopIteration:
                return

    with numpy_batches([shard], schedule) as loader:
        for _ in range(5):
            delivered.clear()
            iterator = iter(loader)
            threads = [threading.Thread(target=take, args=(iterator,)) for _ in range(4)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            assert sorted(b.indices.tolist() for b in delivered) == sorted(schedule)
            for batch in delivered:
                np.testing.assert_array_equal(batch[0].prognostic, expected[batch.indices[0]])
    assert all("while another one waits" in message for message in refused)
