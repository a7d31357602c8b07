"""What the C++ loader hands out: views of two or three bases, read-only by contract, alike in every
batch of a schedule.
"""

from __future__ import annotations

import gc
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from niskin import NativeLoader, TrainingShard, UsageError, numpy_batches
from niskin.batch import Batch
from same_bits import bits
from stores import TinyStore, tiny_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("store"), rows=24)


def shard_of(store: TinyStore, **options: Any) -> TrainingShard:
    source = store.open(prognostic=("thetao_0", "zos"), boundary=("hfds",))
    return TrainingShard(source, **({"hist": 1, "steps": 2} | options))


def storages(batch: Batch) -> list[list[int]]:
    """Where the storage of each tensor of each step begins."""
    return [[tensor.untyped_storage().data_ptr() for tensor in step] for step in batch]


@pytest.mark.parametrize("schedule", [[[0, 1, 2], [3, 4, 5]], [[2, 0], [5, 5]]])
def test_every_tensor_is_a_view_of_a_base(store: TinyStore, schedule: Any) -> None:
    with NativeLoader([shard_of(store)], schedule) as loader:
        for batch in loader:
            p, q = (base.untyped_storage().data_ptr() for base in batch.bases)
            assert storages(batch) == [[p, q, p]] * 2
            assert batch[0].label.data_ptr() == batch[1].prognostic.data_ptr()
            assert batch[1].prognostic.data_ptr() == batch.bases[0][2].data_ptr()
            assert all(base.data_ptr() % 64 == 0 for base in batch.bases)


def test_neighbouring_samples_share_their_rows(store: TinyStore) -> None:
    with NativeLoader([shard_of(store)], [[0, 1, 2], [4, 5, 6]]) as loader:
        for batch in loader:
            # 3 + 6 - 1 rows of two channels, 3 + 4 - 1 of one, instead of 18 and 12
            assert [base.shape[0] for base in batch.bases] == [8, 6]
            assert batch[0].prognostic[1, :2].data_ptr() == batch[0].prognostic[0, 2:].data_ptr()


def test_separate_labels_have_a_base_of_their_own(store: TinyStore, tmp_path: Path) -> None:
    labels = tiny_store(tmp_path / "labels", rows=24, ny=8, nx=9, seed=1)
    source = labels.open(prognostic=("thetao_0", "zos"), boundary=("hfds",))
    with NativeLoader([shard_of(store, labels=source)], [[0, 2]]) as loader:
        (batch,) = loader
    p, q, r = (base.untyped_storage().data_ptr() for base in batch.bases)
    assert storages(batch) == [[p, q, r]] * 2


@pytest.mark.parametrize("schedule", [[[0, 1], [2, 3], [4, 5]], [[0, 1], [3, 2], [4, 5]]])
@pytest.mark.parametrize("stride", [1, 2])
def test_strides_are_the_same_in_every_batch(store: TinyStore, schedule: Any, stride: int) -> None:
    with NativeLoader([shard_of(store, stride=stride)], schedule) as loader:
        strides = [[tensor.stride() for step in batch for tensor in step] for batch in loader]
    assert len(strides) == 3
    assert strides[0] == strides[1] == strides[2]


def test_writable_tensors_have_memory_of_their_own(store: TinyStore) -> None:
    with NativeLoader([shard_of(store)], [[0, 1]], writable=True) as loader:
        (batch,) = loader
        tensors = [tensor for step in batch for tensor in step]
        assert all(tensor.is_contiguous() for tensor in tensors)
        spans = sorted((t.data_ptr(), t.data_ptr() + t.nbytes) for t in tensors)
        assert all(end <= begin for (_, end), (begin, _) in pairwise(spans))
        before = [bits(tensor).copy() for tensor in tensors]
        batch[0].label.add_(1.0)
        changed = [not np.array_equal(bits(t), old) for t, old in zip(tensors, before, strict=True)]
        assert changed == [False, False, True, False, False, False]


@pytest.mark.parametrize("number", [0, 1, 2])
@pytest.mark.parametrize("step", [0, 1])
def test_a_write_is_reported_when_the_batch_is_left(
    store: TinyStore, step: int, number: int
) -> None:
    loader = NativeLoader([shard_of(store)], [[0, 1], [2, 3]])
    iterator = iter(loader)
    batch = next(iterator)
    batch[step][number].mul_(2.0)
    with pytest.raises(UsageError, match=r"batch \[0, 1\]: a .* tensor was written to"):
        next(iterator)
    assert list(iterator) == []
    loader.close()


def test_a_write_to_the_last_batch_is_reported_at_the_end_and_on_close(store: TinyStore) -> None:
    loader = NativeLoader([shard_of(store)], [[0, 1]])
    iterator = iter(loader)
    torch.relu_(next(iterator)[0].prognostic)
    with pytest.raises(UsageError, match="written to"):
        next(iterator)
    iterator = iter(loader)
    next(iterator)[1].boundary.zero_()
    with pytest.raises(UsageError, match="written to"):
        loader.close()
    loader.close()


def test_arrays_refuse_writes(store: TinyStore) -> None:
    with numpy_batches([shard_of(store)], [[0, 1]]) as loader:
        (batch,) = loader
    for tensor in batch[0]:
        with pytest.raises(ValueError, match="read-only"):
            tensor[...] = 0


def test_kept_batches_are_never_written_again(store: TinyStore) -> None:
    schedule = [[first, first + 2] for first in range(16)]
    with NativeLoader([shard_of(store)], schedule, prefetch_batches=1) as loader:
        kept, before = [], []
        for batch in loader:
            kept.append(batch[0].prognostic)
            before.append(bits(batch[0].prognostic).copy())
        del batch
        pool = loader.pool
    gc.collect()
    assert pool.stats()["slab_bytes_delivered"] > 0
    assert all(np.array_equal(bits(t), old) for t, old in zip(kept, before, strict=True))
    assert len({tensor.untyped_storage().data_ptr() for tensor in kept}) == 16
