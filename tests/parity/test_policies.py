"""NaN, infinities, dry channels, absent chunks: the same numbers, warnings, counts and errors."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from niskin import CpuLoader, FormatError, NativeLoader, StoreError, TrainingShard, UsageError
from niskin.batch import Batch
from same_bits import assert_same_batches
from stores import TinyStore, change_json, copy_of, tiny_store

PROGNOSTIC = ("thetao_0", "so_1", "zos")
BOUNDARY = ("hfds",)
SCHEDULES = ([[0, 1], [1, 3]], [[3, 0], [2, 2]])


@dataclass(kw_only=True)
class Outcome:
    """What one pass of a loader came to."""

    batches: list[Batch]
    error: Exception | None
    warned: list[str]
    stats: dict[str, Any]


def outcome(
    make: Callable[..., Any], shard: TrainingShard, schedule: Any, **options: Any
) -> Outcome:
    batches: list[Batch] = []
    error: Exception | None = None
    with (
        warnings.catch_warnings(record=True) as caught,
        make([shard], schedule, **options) as loader,
    ):
        warnings.simplefilter("always")
        try:
            for batch in loader:
                batches.append(batch)
        except (FormatError, StoreError) as raised:
            error = raised
        stats = loader.stats()
    texts = [str(warning.message) for warning in caught]
    return Outcome(batches=batches, error=error, warned=texts, stats=stats)


def same_outcome(shard: TrainingShard, schedule: Any, **options: Any) -> Outcome:
    """Both loaders' outcome, which must be one: values, warnings, number of bad values, error."""
    cpu = outcome(CpuLoader, shard, schedule, **options)
    native = outcome(NativeLoader, shard, schedule, **options)
    assert_same_batches(native.batches, cpu.batches)
    assert sorted(native.warned) == sorted(cpu.warned)
    assert native.stats["bad_values"] == cpu.stats["bad_values"]
    assert type(native.error) is type(cpu.error)
    return native


def shard_of(store: TinyStore, **options: Any) -> TrainingShard:
    source = store.open(prognostic=PROGNOSTIC, boundary=BOUNDARY, **options)
    return TrainingShard(source, hist=1, steps=2)


@pytest.fixture(scope="module", params=["none", "blosc-lz4"])
def bad_store(tmp_path_factory: pytest.TempPathFactory, request: Any) -> TinyStore:
    """NaN and infinities in wet cells of rows 2 to 4, and one on land."""
    store = tiny_store(tmp_path_factory.mktemp("bad"), codec=request.param)
    root = zarr.open_group(store.data, mode="a", zarr_format=2)
    root["zos"][2, 3, 5] = np.nan
    root["zos"][3, 3, 4:6] = np.inf
    root["so_1"][4, 3, 5] = -np.inf
    root["thetao_0"][4, 3, 5] = np.nan
    root["hfds"][2, 3, 5] = np.nan
    root["hfds"][2, 0, 0] = np.inf  # land
    assert all(store.masks[c][3, 5] for c in PROGNOSTIC)
    assert store.masks["zos"][3, 4]
    return store


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=["ascending", "descending"])
def test_bad_values_that_warn(bad_store: TinyStore, schedule: Any, writable: bool) -> None:
    seen = same_outcome(shard_of(bad_store), schedule, writable=writable)
    assert len(seen.batches) == 2
    (text,) = seen.warned
    assert text.startswith("zos: 1958-01-13 12:00:00: got NaN or infinity in 1 wet cell, first at")
    # Every batch has rows 2 to 4 in the prognostic and row 2 in the boundary, once each however
    # often they are used: zos 1 + 2, so_1 1, thetao_0 1, hfds 1.
    assert seen.stats["bad_values"] == 2 * 6
    largest = np.finfo(np.float32).max
    for batch in seen.batches:
        planes = {  # row of the store -> (thetao_0, so_1, zos) at the bad cell
            row: np.asarray(batch[0].prognostic)[sample, 3 * k : 3 * k + 3, 3, 5].tolist()
            for sample, rows in enumerate(shard_of(bad_store).positions(batch.indices)[:, :2])
            for k, row in enumerate(rows.tolist())
        }
        assert planes.get(2, [0.0, 0.0, 0.0])[2] == 0
        assert planes.get(3, [0.0, 0.0, largest])[2] == largest
        assert planes.get(4, [0.0, -largest])[:2] == [0, -largest]


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("schedule", SCHEDULES, ids=["ascending", "descending"])
def test_bad_values_that_are_an_error(bad_store: TinyStore, schedule: Any, writable: bool) -> None:
    shard = shard_of(bad_store, bad_values="error")
    cpu = outcome(CpuLoader, shard, schedule, writable=writable)
    seen = same_outcome(shard, schedule, writable=writable)
    assert seen.batches == []
    assert seen.warned == []
    assert str(seen.error) == str(cpu.error)
    assert str(seen.error).startswith("zos: 1958-01-13 12:00:00: got NaN or infinity in 1 wet cell")


def test_bad_values_that_are_ignored(bad_store: TinyStore) -> None:
    seen = same_outcome(shard_of(bad_store, bad_values="ignore"), SCHEDULES[0])
    assert len(seen.batches) == 2
    assert (seen.warned, seen.stats["bad_values"]) == ([], 0)


def test_bad_values_of_labels_name_their_own_store(bad_store: TinyStore, tmp_path: Path) -> None:
    clean = tiny_store(tmp_path / "clean", seed=5)
    names = {"prognostic": PROGNOSTIC, "boundary": BOUNDARY}
    shard = TrainingShard(clean.open(**names), bad_store.open(**names), hist=1, steps=2)
    seen = same_outcome(shard, [[0]])
    (text,) = seen.warned
    assert f"store: {bad_store.data}" in text
    assert seen.stats["bad_values"] == 5  # rows 2 to 5 of the prognostic channels


@pytest.mark.parametrize("fill", [0.0, -1.0])
@pytest.mark.parametrize("normalize_first", [True, False])
def test_channel_without_a_wet_cell(tmp_path: Path, fill: float, normalize_first: bool) -> None:
    store = tiny_store(tmp_path, consolidated=False)
    root = zarr.open_group(store.data, mode="a", zarr_format=2)
    root["mask_1"][...] = 0
    shard = TrainingShard(
        store.open(prognostic=PROGNOSTIC, boundary=BOUNDARY), hist=1, steps=2,
        normalize_before_mask=normalize_first, masked_fill_value=fill,
    )  # fmt: skip
    seen = same_outcome(shard, [[0, 2]])
    for step in seen.batches[0]:
        for tensor in (step.prognostic, step.label):
            assert (tensor[:, [1, 4]] == fill).all()
            assert (tensor[:, [2, 5], 3, 5] != fill).all()
    # so_1 is not read: 8 rows of the two others, 6 of the boundary.
    assert seen.stats["reads"] == 8 * 2 + 6


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("whole"), cell_chunks=(2, 3))


@pytest.fixture
def torn(whole: TinyStore, tmp_path: Path) -> TinyStore:
    """Three chunks with wet cells are absent: two of zos, one of hfds."""
    store = copy_of(whole, tmp_path / "torn")
    for key in ("zos/3.1.1", "zos/10.1.1", "hfds/2.1.1"):
        (store.data / key).unlink()
    return store


def test_absent_chunk_is_an_error(torn: TinyStore) -> None:
    seen = same_outcome(shard_of(torn), [[5], [1]])  # rows 5 to 10, then 1 to 6
    assert seen.batches == []
    assert isinstance(seen.error, StoreError)
    assert "zos: chunk 10.1.1 is absent" in str(seen.error)
    assert f"store: {torn.data}" in str(seen.error)


def test_absent_chunk_fails_its_own_batch(torn: TinyStore) -> None:
    shard = shard_of(torn)
    for make in (CpuLoader, NativeLoader):
        seen = outcome(make, shard, [[4], [5], [4]])  # rows 4 to 9, then 5 to 10
        assert [batch.indices.tolist() for batch in seen.batches] == [[4]]
        assert isinstance(seen.error, StoreError)


def test_absent_chunk_that_warns(torn: TinyStore) -> None:
    seen = same_outcome(shard_of(torn, missing_chunks="warn", bad_values="ignore"), [[0, 5]])
    assert len(seen.batches) == 1
    assert sorted(seen.warned, reverse=True) == [
        f"zos: chunk 3.1.1 is absent, and 1 more; read as fill\n  store: {torn.data}",
        f"hfds: chunk 2.1.1 is absent; read as fill\n  store: {torn.data}",
    ]


def test_absent_chunk_that_is_filled(torn: TinyStore) -> None:
    seen = same_outcome(shard_of(torn, missing_chunks="fill"), [[2]])
    # NaN is the fill value, so the wet cells of the absent tiles are bad values.
    wet = torn.masks["zos"][2:, 3:].sum()
    assert seen.stats["bad_values"] == 2 * wet
    (text,) = seen.warned
    assert text.startswith("hfds: 1958-01-13 12:00:00: got NaN")
    last = np.asarray(seen.batches[0][0].prognostic)[0, 5]
    assert (last[2:, 3:] == 0).all()
    assert last[3, 2] != 0


def test_absent_chunk_of_labels_names_their_own_store(torn: TinyStore, tmp_path: Path) -> None:
    names: dict[str, Any] = {"prognostic": PROGNOSTIC, "boundary": BOUNDARY}
    names |= {"missing_chunks": "warn", "bad_values": "ignore"}
    clean = tiny_store(tmp_path / "clean", seed=5)
    shard = TrainingShard(clean.open(**names), torn.open(**names), hist=1, steps=2)
    seen = same_outcome(shard, [[1]])
    assert seen.warned == [f"zos: chunk 3.1.1 is absent; read as fill\n  store: {torn.data}"]


@pytest.mark.parametrize("fill_value", [None, 0.0, -5.0])
def test_absent_chunk_reads_as_the_fill_value_of_its_array(
    tmp_path: Path, fill_value: float | None
) -> None:
    store = tiny_store(tmp_path, fill_value=fill_value)
    (store.data / "zos" / "3.0.0").unlink()
    seen = same_outcome(shard_of(store, missing_chunks="fill"), [[2]])
    value = (np.float32(0) - store.mean["zos"]) / store.std["zos"]
    marks = fill_value == -5.0  # a non-zero fill value of format 2 means "missing"
    assert (seen.stats["bad_values"] > 0) == marks
    zos = np.asarray(seen.batches[0][0].prognostic)[0, 5]
    assert (zos[store.masks["zos"]] == (0 if marks else value)).all()


def test_absent_chunk_without_a_wet_cell_is_legal(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, ny=2, nx=2, cell_chunks=(1, 1), codec="zstd")
    removed = 0
    for name in (*PROGNOSTIC, *BOUNDARY):
        for y, x in np.argwhere(~store.masks[name]).tolist():
            for row in range(12):
                (store.data / name / f"{row}.{y}.{x}").unlink()
                removed += 1
    assert removed >= 4 * 12  # cell (0, 0) is land
    seen = same_outcome(shard_of(store), [[0, 4]])
    assert seen.error is None
    assert seen.warned == []
    assert seen.stats["absent_chunks"] > 0


@pytest.mark.parametrize(
    ("marker", "marked"),
    [
        (1e20, True), ([7.0, 1e20], True), ("1e20", True), (float(np.float32(1e20)), True),
        ([], False), (1e300, False), (0, False),
    ],
)  # fmt: skip
def test_values_that_attributes_mark_as_missing(tmp_path: Path, marker: Any, marked: bool) -> None:
    store = tiny_store(tmp_path, consolidated=False)
    change_json(store.data / "zos" / ".zattrs", missing_value=marker)
    root = zarr.open_group(store.data, mode="a", zarr_format=2)
    root["zos"][2, 3, 5] = 1e20
    root["zos"][2, 3, 4] = np.inf
    seen = same_outcome(shard_of(store), [[2]])
    zos = np.asarray(seen.batches[0][0].prognostic)[0, 2, 3]
    assert (zos[5] == 0) == marked
    assert zos[4] == np.finfo(np.float32).max  # an infinity is no finite marker, however large
    assert seen.stats["bad_values"] == 1 + marked


def test_a_replaced_reader_is_refused_by_the_core(whole: TinyStore) -> None:
    source = whole.open(prognostic=PROGNOSTIC, boundary=BOUNDARY)

    class Zeros:
        channels = source.channels

        def read(self, rows: Any, channels: Any) -> Any:
            return np.zeros((*rows.shape, len(channels), 4, 6), np.float32)

    replaced = source.with_reader(Zeros()).between(source.time[0], source.time[-1])
    shard = TrainingShard(replaced, hist=0, steps=1)
    assert len(list(CpuLoader([shard], [[0]]))) == 1
    with pytest.raises(UsageError, match="reader was replaced"):
        NativeLoader([shard], [[0]])
