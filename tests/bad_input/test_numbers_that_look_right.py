"""Inputs from which wrong numbers come without any error: both loaders get them right."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from niskin import CpuLoader, DistributedBatchSampler, NativeLoader, TrainingShard
from prepared import expected_steps
from stores import TinyStore, tiny_store

LOADERS = [NativeLoader, CpuLoader]
pytestmark = pytest.mark.timeout(60)


def batches_of(kind: type[Any], shard: TrainingShard, schedule: Any) -> list[Any]:
    with kind([shard], schedule) as loader:
        return list(loader)


def assert_expected(kind: type[Any], store: TinyStore, shard: TrainingShard, sample: int) -> None:
    (batch,) = batches_of(kind, shard, [[sample]])
    for step, expected in zip(batch, expected_steps(store, shard, [sample]), strict=True):
        for tensor, right in zip(step, expected, strict=True):
            assert tensor.numpy().tobytes() == right.tobytes()


@pytest.fixture(scope="module")
def compact(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("compact"), layout="compact", rows=6, levels=2)


@pytest.mark.parametrize("kind", LOADERS)
def test_channels_come_in_the_order_asked_for(compact: TinyStore, kind: type[Any]) -> None:
    """Level by level or variable by variable: names, masks, statistics and values stay together."""
    for names in itertools.permutations(["uo_0", "vo_0", "uo_1", "vo_1"]):
        source = compact.open(prognostic=names, boundary=["hfds"])
        assert source.prognostic == names
        assert_expected(kind, compact, TrainingShard(source, hist=0, steps=1), 2)


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("place", [0, 2, 4])
def test_a_surface_channel_keeps_its_own_statistics_among_levels(
    compact: TinyStore, kind: type[Any], place: int
) -> None:
    names = ["thetao_0", "thetao_1", "so_0", "so_1"]
    names.insert(place, "zos")
    source = compact.open(prognostic=names, boundary=["hfds"])
    means, stds = source.statistics(names)
    assert means.tolist() == [compact.mean[name] for name in names]
    assert stds.tolist() == [compact.std[name] for name in names]
    assert_expected(kind, compact, TrainingShard(source, hist=0, steps=1), 1)


def one_row(store: TinyStore, name: str, row: int, values: Any) -> None:
    zarr.open_group(store.data, mode="r+")[name][row] = np.asarray(values, np.float32)


def set_scalar(path: Path, name: str, value: float) -> None:
    zarr.open_group(path, mode="r+")[name][...] = value


@pytest.mark.parametrize("kind", LOADERS)
def test_normalizing_divides_in_float32(tmp_path: Path, kind: type[Any]) -> None:
    """In float64 it would be 0.09992646, and 0.09986443 as a product with 1 / std."""
    store = tiny_store(tmp_path, rows=2, levels=1)
    set_scalar(store.means, "zos", 34.7)
    set_scalar(store.stds, "zos", 0.0123)
    one_row(store, "zos", 0, np.full((4, 6), 34.70123))
    source = store.open(prognostic=["zos"], boundary=["hfds"])
    (batch,) = batches_of(kind, TrainingShard(source, hist=0, steps=1), [[0]])
    wet = batch[0].prognostic.numpy()[0, 0][store.masks["zos"]]
    assert set(wet.tolist()) == {float(np.float32(0.09986444))}


@pytest.mark.parametrize("kind", LOADERS)
def test_real_zeros_are_no_missing_values_where_the_fill_value_is_zero(
    tmp_path: Path, kind: type[Any]
) -> None:
    store = tiny_store(tmp_path, rows=2, levels=1, fill_value=0.0)
    values = np.zeros((4, 6))
    values[0, 0] = 5  # land, so that the writer does not leave the chunk out
    one_row(store, "zos", 0, values)
    source = store.open(prognostic=["zos"], boundary=["hfds"], bad_values="error")
    (batch,) = batches_of(kind, TrainingShard(source, hist=0, steps=1), [[0]])
    zero = (np.float32(0) - store.mean["zos"]) / store.std["zos"]
    wet = batch[0].prognostic.numpy()[0, 0][store.masks["zos"]]
    assert set(wet.tolist()) == {float(zero)}


@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("normalize_first", [True, False])
def test_land_is_the_fill_value_whatever_the_store_holds_there(
    tmp_path: Path, kind: type[Any], normalize_first: bool
) -> None:
    store = tiny_store(tmp_path, rows=8, levels=1)
    wet = store.masks["zos"]
    set_scalar(store.means, "zos", 10.0)
    set_scalar(store.stds, "zos", 2.0)
    on_land = [0.0, -1e34, 9.96921e36, 1e17, np.nan, np.inf]
    for row, value in enumerate(on_land):
        one_row(store, "zos", row, np.where(wet, 1e17, value))
    source = store.open(prognostic=["zos"], boundary=["hfds"], bad_values="error")
    shard = TrainingShard(source, hist=0, steps=1, normalize_before_mask=normalize_first)
    (batch,) = batches_of(kind, shard, [list(range(len(on_land)))])
    planes = batch[0].prognostic.numpy()[:, 0]
    assert set(planes[:, ~wet].ravel().tolist()) == {0.0 if normalize_first else -5.0}
    large = (np.float32(1e17) - np.float32(10)) / np.float32(2)  # in a wet cell it stays
    assert set(planes[:, wet].ravel().tolist()) == {float(large)}


@pytest.mark.parametrize("kind", LOADERS)
def test_no_window_of_a_split_touches_a_date_outside_it(tmp_path: Path, kind: type[Any]) -> None:
    store = tiny_store(tmp_path, rows=20, levels=1)
    source = store.open(prognostic=["zos"], boundary=["hfds"])
    split = source.between(source.time[4], source.time[13], exclusive_end=True)
    shard = TrainingShard(split, hist=1, steps=2)
    assert len(shard) == 9 - 2 * 2 - 1
    batches = batches_of(kind, shard, [[k] for k in range(len(shard))])
    dates = {date for batch in batches for date in batch.times.ravel()}
    assert sorted(dates) == source.time[4:13].tolist()
    for k, batch in enumerate(batches):
        for step, right in zip(batch, expected_steps(store, shard, [k], first_row=4), strict=True):
            assert step.label.numpy().tobytes() == right[2].tobytes()


@pytest.mark.parametrize("kind", LOADERS)
def test_windows_of_the_shortest_record(tmp_path: Path, kind: type[Any]) -> None:
    """Ten rows, one of history, two steps: five samples, the last one ends at the last row."""
    store = tiny_store(tmp_path, rows=10, levels=1)
    shard = TrainingShard(store.open(prognostic=["zos"], boundary=["hfds"]), hist=1, steps=2)
    assert len(shard) == 5
    for sample in (0, 4):
        assert_expected(kind, store, shard, sample)
    (batch,) = batches_of(kind, shard, [[4]])
    assert batch.times[0].tolist() == shard.source.time[4:10].tolist()


# Daily, and pentads with the 6-day step of a leap year.
RECORDS = {
    "daily": [0.5 + k for k in range(20)],
    "pentads": [2.5 + 5 * k + (k > 11) for k in range(20)],
}


@pytest.mark.filterwarnings("ignore:time. got 1 of 9 steps")
@pytest.mark.parametrize("kind", LOADERS)
@pytest.mark.parametrize("times", RECORDS.values(), ids=RECORDS.keys())
def test_dates_of_a_batch_are_those_of_its_rows(
    tmp_path: Path, kind: type[Any], times: list[float]
) -> None:
    store = tiny_store(tmp_path, rows=20, levels=1, times=times)
    source = store.open(prognostic=["zos"], boundary=["hfds"])
    shard = TrainingShard(source.between(source.time[10], source.time[19]), hist=0, steps=2)
    (batch,) = batches_of(kind, shard, [[0, 7]])
    assert batch.times.tolist() == [source.time[10:13].tolist(), source.time[17:20].tolist()]
    days = [(date - source.time[0]).days for date in batch.times[0]]
    assert days == [round(times[row] - times[0]) for row in (10, 11, 12)]


@pytest.fixture(scope="module")
def two_grids(tmp_path_factory: pytest.TempPathFactory) -> list[TrainingShard]:
    """Seven and five samples."""
    folder = tmp_path_factory.mktemp("grids")
    stores = [
        tiny_store(folder / str(rows), rows=rows, levels=1, ny=ny) for rows, ny in ((8, 4), (6, 6))
    ]
    return [TrainingShard(store.open(), hist=0, steps=1) for store in stores]


@pytest.mark.parametrize("world_size", [2, 3, 4])
@pytest.mark.parametrize("drop_last", [False, True])
def test_every_rank_yields_as_many_batches_and_the_same_grid_at_each_step(
    two_grids: list[TrainingShard], world_size: int, drop_last: bool
) -> None:
    for batch_size, shuffle in itertools.product((1, 2), (False, True)):
        grids = []
        for rank in range(world_size):
            sampler = DistributedBatchSampler(
                two_grids, batch_size=batch_size, rank=rank, world_size=world_size, seed=7,
                shuffle=shuffle, drop_last=drop_last,
            )  # fmt: skip
            with NativeLoader(two_grids, sampler) as loader:
                grids.append([batch[0].label.shape[-2] for batch in loader])
                assert len(grids[-1]) == len(loader)
        assert all(grid == grids[0] for grid in grids)
