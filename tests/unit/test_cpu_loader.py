from __future__ import annotations

import gc
import os
import pickle
import random
import signal
import warnings
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fakes import FakeSource, fake
from niskin.batch import Batch
from niskin.canonical import CanonicalDataset
from niskin.cpu_loader import CpuLoader
from niskin.errors import DecodeError, FormatError, StoreError, UsageError
from niskin.om4 import open_om4
from niskin.sampling import BatchSampler, DistributedBatchSampler
from niskin.shard import TrainingShard
from stores import TinyStore, tiny_store

PROGNOSTIC = ("thetao_1", "zos", "so_0")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("store"), rows=20)


def opened(store: TinyStore, **options: Any) -> CanonicalDataset:
    options = {"prognostic": PROGNOSTIC, "boundary": ("hfds", "tauuo")} | options
    return open_om4(store.data, store.means, store.stds, **options)


def shard_of(store: TinyStore, **options: Any) -> TrainingShard:
    return TrainingShard(opened(store), **({"hist": 1, "steps": 2} | options))


def fake_shard(**options: Any) -> tuple[FakeSource, TrainingShard]:
    source: Any = fake(**options)
    return source, TrainingShard(source, hist=1, steps=2)


def prepared(
    store: TinyStore, rows: Any, channels: tuple[str, ...], *, fill: float, normalize_first: bool
) -> np.ndarray[Any, Any]:
    """(B, row * channel, ny, nx) by the definition, from what the store's writer knows."""
    planes = []
    for row in rows:
        for channel in channels:
            x, wet = store.truth[channel][row], store.masks[channel]
            if not normalize_first:
                x = np.where(wet, x, np.float32(fill))
            with np.errstate(invalid="ignore"):
                x = np.nan_to_num((x - store.mean[channel]) / store.std[channel])
            planes.append(np.where(wet, x, np.float32(fill)) if normalize_first else x)
    return np.stack(planes)


@pytest.mark.parametrize("fill", [0.0, -1.0])
@pytest.mark.parametrize("normalize_first", [True, False])
@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("schedule", [[[3, 0], [7]], [[3, 4, 5], [0, 1, 2]], [[5, 5]]])
def test_every_value_follows_the_definition(
    store: TinyStore, schedule: list[list[int]], writable: bool, normalize_first: bool, fill: float
) -> None:
    shard = shard_of(store, normalize_before_mask=normalize_first, masked_fill_value=fill)
    with CpuLoader([shard], schedule, writable=writable) as loader:
        batches = list(loader)
    assert [batch.indices.tolist() for batch in batches] == schedule
    for batch in batches:
        plan = shard.plan(batch.indices)
        for step, uses in zip(batch, plan, strict=True):
            for tensor, use in zip(step, uses, strict=True):
                for sample, rows in zip(tensor, use.rows, strict=True):
                    expected = prepared(
                        store, rows, use.channels, fill=fill, normalize_first=normalize_first
                    )
                    assert sample.numpy().tobytes() == expected.tobytes()


def test_published_example_of_both_orders() -> None:
    values = np.array([10, np.nan, 30, 40], dtype=np.float32)
    expected = {True: [-1.25, 0, -1, -1], False: [-1.25, 0, -2.625, -2.625]}
    for normalize_first, result in expected.items():
        source: Any = fake(
            rows=4, ny=1, nx=4, mean=20.0, std=8.0, prognostic=("zos",), bad_values="ignore"
        )
        wet = np.array([[True, True, False, False]])
        source.masks = dict.fromkeys(source.channels, wet)
        source.values[:] = values
        shard = TrainingShard(
            source, hist=0, steps=1, normalize_before_mask=normalize_first, masked_fill_value=-1
        )
        (batch,) = CpuLoader([shard], [[0]])
        assert batch[0].prognostic.flatten().tolist() == result


def test_normalizing_is_float32_with_true_division() -> None:
    source: Any = fake(rows=4, ny=1, nx=2, mean=34.7, std=0.0123, prognostic=("zos",))
    source.values[:] = np.float32(34.70123)
    (batch,) = CpuLoader([TrainingShard(source, hist=0, steps=1)], [[0]])
    assert batch[0].prognostic.flatten().tolist()[1] == float(np.float32(0.09986444))


def test_infinities_become_the_largest_float32() -> None:
    source: Any = fake(rows=4, ny=1, nx=3, prognostic=("zos",), bad_values="ignore")
    source.values[:] = np.array([0, np.inf, -np.inf], dtype=np.float32)
    (batch,) = CpuLoader([TrainingShard(source, hist=0, steps=1)], [[0]])
    largest = float(np.finfo(np.float32).max)
    assert batch[0].prognostic.flatten().tolist() == [0, largest, -largest]


@pytest.mark.parametrize("land", [0.0, -1e34, 9.96921e36, 1e17, np.nan, np.inf])
@pytest.mark.parametrize("normalize_first", [True, False])
def test_land_holds_the_fill_value_whatever_the_store_has_there(
    land: float, normalize_first: bool
) -> None:
    source: Any = fake(rows=4, mean=10.0, std=2.0)
    source.values[..., 0, 0] = land
    shard = TrainingShard(source, hist=0, steps=1, normalize_before_mask=normalize_first)
    (batch,) = CpuLoader([shard], [[0, 2]])
    expected = 0.0 if normalize_first else -5.0
    for tensor in batch[0]:
        assert (tensor[..., 0, 0] == expected).all()
        assert tensor[..., 0, 1].isfinite().all()


@pytest.mark.parametrize("std", [0.0, np.nan, 3.0])
@pytest.mark.parametrize("normalize_first", [True, False])
def test_channel_without_a_wet_cell_is_the_fill_value(normalize_first: bool, std: float) -> None:
    source: Any = fake(rows=4, mean=10.0, std=std, dry=("zos",))
    shard = TrainingShard(
        source, hist=0, steps=1, normalize_before_mask=normalize_first, masked_fill_value=-1
    )
    (batch,) = CpuLoader([shard], [[0, 1]])
    assert (batch[0].prognostic[:, 1] == -1).all()
    assert (batch[0].label[:, 1] == -1).all()


def test_separate_labels_have_their_own_grid_and_statistics(tmp_path: Path) -> None:
    coarse = tiny_store(tmp_path / "coarse", rows=12, seed=1)
    fine = tiny_store(tmp_path / "fine", rows=12, ny=6, nx=9, seed=2)
    shard = TrainingShard(opened(coarse), opened(fine), hist=1, steps=2)
    with CpuLoader([shard], [[2, 0]]) as loader:
        (batch,) = loader
    assert tuple(batch[1].label.shape) == (2, 2 * 3, 6, 9)
    rows = shard.plan([2, 0])[1].label.rows[0]
    expected = prepared(fine, rows, PROGNOSTIC, fill=0.0, normalize_first=True)
    assert batch[1].label[0].numpy().tobytes() == expected.tobytes()
    assert batch.context.label_mask.shape == (2 * 3, 6, 9)


def test_each_row_is_read_once_for_a_batch() -> None:
    source, shard = fake_shard(rows=20)
    (batch,) = CpuLoader([shard], [[0, 1, 0]])
    assert [(rows, len(channels)) for rows, channels in source.reads] == [
        (list(range(7)), 2),
        (list(range(5)), 1),
    ]
    assert batch[0].prognostic[0].equal(batch[0].prognostic[2])
    source.reads.clear()
    list(CpuLoader([shard], [[0, 1]], writable=True))
    assert [rows for rows, _ in source.reads] == [list(range(7)), list(range(5))]


def test_statistics_of_the_loader() -> None:
    _, shard = fake_shard(rows=20)
    loader = CpuLoader([shard], [[0, 1], [4, 5]])
    for batch in loader:
        assert set(batch.stats) == {"load_s", "wait_s"}
    stats = loader.stats()
    plane = 2 * 3 * 4
    assert (stats["batches"], stats["samples"], stats["reads"]) == (2, 4, 4)
    assert stats["bytes_unique"] == stats["bytes_read"] == 2 * (7 * 2 + 5) * plane
    assert stats["bytes_delivered"] == 2 * 2 * 2 * 2 * (2 + 1 + 2) * plane
    assert stats["wait_s"] > 0


def test_neighbouring_windows_share_memory_in_every_batch_or_in_none() -> None:
    _, shard = fake_shard(rows=20)
    shared = list(CpuLoader([shard], [[0, 1, 2], [5, 6, 7]]))
    assert [batch.bases[0].shape[0] for batch in shared] == [8, 8]
    apart = list(CpuLoader([shard], [[0, 1, 2], [5, 7, 6]]))
    assert [batch.bases[0].shape[0] for batch in apart] == [18, 18]
    for one, other in zip(shared[0], apart[0], strict=True):
        assert all(a.equal(b) for a, b in zip(one, other, strict=True))


def test_dates_are_those_of_the_subset(store: TinyStore) -> None:
    source = opened(store)
    subset = source.between(source.time[10], source.time[19])
    shard = TrainingShard(subset, hist=0, steps=1)
    (batch,) = CpuLoader([shard], [[0]])
    assert batch.times[0].tolist() == source.time[10:12].tolist()
    expected = prepared(store, [10], PROGNOSTIC, fill=0.0, normalize_first=True)
    assert batch[0].prognostic[0].numpy().tobytes() == expected.tobytes()


def test_padded_samples_are_marked() -> None:
    _, shard = fake_shard(rows=10)  # five samples
    sampler = DistributedBatchSampler([shard], batch_size=2, rank=1, world_size=2)
    first, second = CpuLoader([shard], sampler)
    assert first.valid.tolist() == [True, True]
    assert (second.indices.tolist(), second.valid.tolist()) == ([0, 1], [False, False])


def test_epochs_and_the_snapshot_of_the_schedule() -> None:
    _, shard = fake_shard(rows=20)
    sampler = BatchSampler([shard], batch_size=3, shuffle=True, seed=15)
    loader = CpuLoader([shard], sampler)
    assert len(loader) == len(sampler) == 5
    iterator = iter(loader)
    loader.set_epoch(1)
    assert [b.indices.tolist() for b in iterator] == sampler.schedule(0)
    assert [b.indices.tolist() for b in loader] == sampler.schedule(1)
    CpuLoader([shard], [[0]]).set_epoch(4)


def test_empty_schedule_is_legal() -> None:
    _, shard = fake_shard()
    for workers in (0, 2):
        with CpuLoader([shard], [], num_workers=workers) as loader:
            assert (len(loader), list(loader)) == (0, [])


def test_batch_that_mixes_shards_is_refused_in_its_turn() -> None:
    shards = [
        TrainingShard(fake(rows=20), hist=1, steps=2, id=f"train-{number}") for number in (0, 1)
    ]
    iterator = iter(CpuLoader(shards, [[15, 16], [14, 15], [0]]))
    assert next(iterator).indices.tolist() == [15, 16]
    with pytest.raises(UsageError, match="shards 'train-0' and 'train-1'"):
        next(iterator)
    assert list(iterator) == []


def test_index_out_of_range_is_raised_in_its_turn() -> None:
    _, shard = fake_shard(rows=20)
    iterator = iter(CpuLoader([shard], [[0], [15]]))
    next(iterator)
    with pytest.raises(IndexError, match="sample index 15 is out of range for 15 samples"):
        next(iterator)


class Stream:
    def __iter__(self) -> Iterator[list[int]]:
        return iter([[0]])


def test_arguments_that_make_no_sense_are_refused() -> None:
    _, shard = fake_shard()
    with pytest.raises(UsageError, match="shards: got none"):
        CpuLoader([], [[0]])
    with pytest.raises(TypeError, match="sampler: got Stream, expected an iterable"):
        CpuLoader([shard], Stream())  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="num_workers: got -1"):
        CpuLoader([shard], [[0]], num_workers=-1)
    with pytest.raises(UsageError, match="expected lists of sample indices"):
        iter(CpuLoader([shard], [0, 1]))
    if not torch.cuda.is_available():
        for options in ({"device": "cuda"}, {"pin_memory": True}):
            with pytest.raises(UsageError, match="expected a CUDA device"):
                CpuLoader([shard], [[0]], **options)
    assert len(list(CpuLoader([shard], [[0]], persistent_workers=True))) == 1


def test_bad_values_warn_once_for_an_epoch_with_the_first_place() -> None:
    source, shard = fake_shard(rows=20)
    source.values[5, 1, 1, 2] = np.nan
    source.values[5, 1, 1, 1] = np.inf
    source.values[9, 0, 0, 1] = np.nan
    source.values[5, 0, 0, 0] = np.nan  # land
    loader = CpuLoader([shard], [[0], [4], [8]])
    for _ in range(2):
        with pytest.warns(UserWarning, match="NaN or infinity") as caught:
            list(loader)
        assert len(caught) == 1
        text = str(caught[0].message)
        assert text.startswith(
            "zos: 1958-01-28 12:00:00: got NaN or infinity in 2 wet cells, first at (1, 1)"
        )
        assert "  store: /nowhere/fake.zarr" in text
    # Batch 0 and batch 1 hold row 5; batch 1 and batch 2 hold row 9.
    assert loader.stats()["bad_values"] == 2 * (2 + 2 + 1 + 1)


def test_bad_values_may_be_an_error_or_ignored() -> None:
    source, shard = fake_shard(rows=20, bad_values="error")
    source.values[5, 1, 1, 2] = np.nan
    iterator = iter(CpuLoader([shard], [[6], [0], [7]]))
    next(iterator)
    with pytest.raises(FormatError, match=r"zos: 1958-01-28 12:00:00: .* first at \(1, 2\)"):
        next(iterator)
    assert list(iterator) == []
    source.bad_values = "ignore"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        (batch,) = CpuLoader([shard], [[0]])
    assert batch[1].label[0, 3, 1, 2] == 0


def test_a_written_batch_is_reported_when_it_is_left() -> None:
    _, shard = fake_shard(rows=20)
    loader = CpuLoader([shard], [[0], [1]])
    iterator = iter(loader)
    next(iterator)[0].label.mul_(2)
    with pytest.raises(UsageError, match=r"batch \[0\]: a .* was written to"):
        next(iterator)
    assert list(iterator) == []
    iterator = iter(loader)
    next(iterator)
    next(iterator)[0].label.mul_(2)
    with pytest.raises(UsageError, match=r"batch \[1\]"):
        next(iterator)
    iterator = iter(loader)
    next(iterator)[0].label.mul_(2)
    with pytest.raises(UsageError, match=r"batch \[0\]"):
        loader.close()
    loader.close()


def test_a_write_is_never_reported_from_a_destructor_nor_over_another_error() -> None:
    _, shard = fake_shard(rows=20)
    iterator = iter(CpuLoader([shard], [[0], [1]]))
    next(iterator)[0].label.mul_(2)
    del iterator
    gc.collect()
    with pytest.raises(ZeroDivisionError), CpuLoader([shard], [[0], [1]]) as loader:
        next(iter(loader))[0].label.mul_(1 // 0)
    loader = CpuLoader([shard], [[0], [1]])
    kept = iter(loader)
    next(kept)[0].label.mul_(2)
    with pytest.raises(ZeroDivisionError), loader:
        fail()


def fail() -> None:
    raise ZeroDivisionError


def test_a_new_iterator_ends_the_older_one() -> None:
    _, shard = fake_shard(rows=20)
    loader = CpuLoader([shard], [[0], [1], [2]])
    older = iter(loader)
    next(older)
    newer = iter(loader)
    assert list(older) == []
    assert [batch.indices.tolist() for batch in newer] == [[0], [1], [2]]


def test_breaking_out_again_and_again() -> None:
    _, shard = fake_shard(rows=20)
    loader = CpuLoader([shard], [[0], [1], [2]])
    for _ in range(100):
        for batch in loader:
            assert batch.indices.tolist() == [0]
            break
    assert next(iter(loader)).indices.tolist() == [0]
    assert len(list(loader)) == 3


def test_an_iterator_goes_with_its_last_reference_and_the_batches_stay() -> None:
    _, shard = fake_shard(rows=20)
    loader = CpuLoader([shard], [[0], [1]])
    iterator = iter(loader)
    batch = next(iterator)
    watch = weakref.ref(iterator)
    del iterator
    assert watch() is None
    kept = batch[0].label.clone()
    loader.close()
    assert batch[0].label.equal(kept)


def test_closing_is_final_and_idempotent() -> None:
    _, shard = fake_shard(rows=20)
    with CpuLoader([shard], [[0], [1]]) as loader:
        iterator = iter(loader)
        next(iterator)
    loader.close()
    loader.close(deadline_s=0.1)
    assert list(iterator) == []
    with pytest.raises(UsageError, match="after close"):
        iter(loader)


def test_a_loader_is_not_a_dataset() -> None:
    _, shard = fake_shard(rows=20)
    loader = CpuLoader([shard], [[0], [1]])
    with pytest.raises(UsageError, match="dataset of a DataLoader"):
        pickle.dumps(loader)
    inner: Any = torch.utils.data.DataLoader(
        loader,  # type: ignore[arg-type]
        num_workers=1,
        batch_size=None,
        multiprocessing_context="fork",
    )
    with pytest.raises(UsageError, match="dataset of a DataLoader"):
        next(iter(inner))


def test_a_loader_is_refused_after_fork() -> None:
    _, shard = fake_shard(rows=20)
    loader = CpuLoader([shard], [[0], [1]])
    iterator = iter(loader)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        refused = 0
        for attempt in (lambda: next(iterator), lambda: iter(loader)):
            try:
                attempt()
            except UsageError as error:
                refused += "used after fork" in str(error)
        os._exit(refused)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2
    assert len(list(iterator)) == 2


def same(one: Batch, other: Batch) -> bool:
    return (
        one.indices.tolist() == other.indices.tolist()
        and (one.times == other.times).all()
        and all(
            a.numpy().tobytes() == b.numpy().tobytes()
            for s, t in zip(one, other, strict=True)
            for a, b in zip(s, t, strict=True)
        )
    )


@pytest.mark.slow
def test_workers_deliver_the_same_batches(store: TinyStore) -> None:
    shard = shard_of(store)
    schedule = [[3, 0], [7, 7], [12], [1, 2]]
    alone = list(CpuLoader([shard], schedule))
    state = torch.random.get_rng_state()
    with CpuLoader([shard], schedule, num_workers=2, persistent_workers=True) as loader:
        assert all(map(same, loader, alone))
        workers = torch.multiprocessing.active_children()
        next(iter(loader))  # abandoned
        again = list(loader)
        assert torch.multiprocessing.active_children() == workers
        assert len(again) == 4
        assert all(map(same, again, alone))
        assert again[0].context is alone[0].context
        assert loader.stats()["reads"] == 2 * loader.stats()["batches"]
    with CpuLoader([shard], schedule, num_workers=1) as loader:
        assert all(map(same, loader, alone))
    assert torch.random.get_rng_state().equal(state)
    gc.collect()
    assert torch.multiprocessing.active_children() == []


class Unpicklable(Exception):
    def __init__(self, code: int, place: str) -> None:
        super().__init__(f"{code} at {place}")


class Raising(FakeSource):
    def read(self, indices: Any, channels: Any) -> Any:
        raise Unpicklable(7, "row 4")


class Drawing(FakeSource):
    def read(self, indices: Any, channels: Any) -> Any:
        return np.full_like(super().read(indices, channels), random.random() + torch.rand(1).item())


@pytest.mark.slow
def test_errors_of_workers_keep_their_kind_address_and_turn(tmp_path: Path) -> None:
    broken = tiny_store(tmp_path, rows=12)
    (broken.data / "thetao_1" / "9.0.0").write_bytes(b"short")
    (broken.data / "thetao_1" / "6.0.0").unlink()
    raising: Any = Raising()
    shards = [
        TrainingShard(opened(broken, prognostic=("thetao_1",)), hist=0, steps=1),
        TrainingShard(raising, hist=0, steps=1),
    ]
    schedule: list[list[int]] = []
    with CpuLoader(shards, schedule, num_workers=1, persistent_workers=True) as loader:
        for indices, kind, chunk in (([8], DecodeError, "9.0.0"), ([5], StoreError, "6.0.0")):
            schedule[:] = [[0], indices, [1]]
            iterator = iter(loader)
            next(iterator)
            with pytest.raises(kind) as caught:
                next(iterator)
            assert list(iterator) == []
            with pytest.raises(kind) as alone:
                list(CpuLoader(shards, [indices]))
            text = str(caught.value)
            assert text == str(alone.value)
            assert "thetao_1" in text
            assert chunk in text
            assert str(broken.data) in text
            assert "worker process" in caught.value.__notes__[0]
        schedule[:] = [[11]]
        with pytest.raises(RuntimeError, match="Unpicklable: 7 at row 4"):
            next(iter(loader))


@pytest.mark.slow
def test_workers_draw_from_generators_seeded_for_this_loader() -> None:
    source: Any = Drawing(bad_values="ignore")
    shard = TrainingShard(source, hist=0, steps=1)
    with CpuLoader([shard], [[0], [1]], num_workers=2, worker_seed=15) as loader:
        drawn = [float(batch[0].prognostic[0, 0, 1, 1]) for batch in loader]
    generator = torch.Generator().manual_seed(15)
    base = int(torch.empty((), dtype=torch.int64).random_(generator=generator))
    expected = [
        random.Random(base + worker).random()
        + torch.rand(1, generator=torch.Generator().manual_seed(base + worker)).item()
        for worker in range(2)
    ]
    assert drawn == [float(np.float32(number)) for number in expected]


@pytest.mark.slow
def test_a_killed_worker_is_torchs_own_error(store: TinyStore) -> None:
    with CpuLoader([shard_of(store)], [[k] for k in range(8)], num_workers=1) as loader:
        iterator = iter(loader)
        next(iterator)
        for process in torch.multiprocessing.active_children():
            os.kill(process.pid, signal.SIGKILL)
        with pytest.raises(RuntimeError, match="DataLoader worker"):
            list(iterator)
        assert list(iterator) == []
        assert len(list(loader)) == 8
