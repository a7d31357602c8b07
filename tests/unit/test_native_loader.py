"""What NativeLoader decides during a pass: schedule, statistics, refusals in their turn.

Values are the business of tests/parity, the ends of a pass that of tests/lifecycle.
"""

from __future__ import annotations

import gc
import os
import pickle
import subprocess
import sys
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
from stores import TinyStore, change_json, tiny_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("store"), rows=20, levels=2)


def shard_in(store: TinyStore, **options: Any) -> TrainingShard:
    source = store.open(prognostic=("thetao_0", "thetao_1", "zos"), boundary=("hfds",))
    return TrainingShard(source, **({"hist": 1, "steps": 2} | options))


@pytest.fixture(scope="module")
def shard(store: TinyStore) -> TrainingShard:
    return shard_in(store)


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


def test_a_loader_says_what_it_loads(shard: TrainingShard) -> None:
    loader = numpy_batches([shard], [[0], [1]])
    assert repr(loader) == f"NumpyLoader([{shard.id}], 2 batches)"
    loader.close()
    assert repr(loader) == f"NumpyLoader([{shard.id}], 2 batches, closed)"
