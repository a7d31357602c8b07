from __future__ import annotations

import pickle
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from niskin.canonical import CanonicalDataset, shared_rows
from niskin.channels import unknown_channels
from niskin.errors import DecodeError, FormatError, StoreError, UsageError
from stores import TinyStore, tiny_store


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("store"), layout="mixed", rows=20, codec="blosc-lz4")


@pytest.fixture(scope="module")
def dataset(store: TinyStore) -> CanonicalDataset:
    return store.open()


@pytest.mark.parametrize(
    "indices", [[3], [5, 5, 0], [[2, 4], [0, 2]], [], [[[1]]], [-1, 19], [7, 8, 9]]
)
def test_read_has_the_shape_of_the_indices(
    store: TinyStore, dataset: CanonicalDataset, indices: Any
) -> None:
    channels = ["zos", "so_1", "so_0", "so_1", "uo_2"]
    positions = np.array(indices, dtype=np.int32)

    values = dataset.read(positions, channels)

    assert values.dtype == np.float32
    assert values.flags.c_contiguous
    expected = store.expected(positions.ravel().tolist(), channels)
    np.testing.assert_array_equal(values, expected.reshape(*positions.shape, 5, 4, 6))


def test_read_accepts_one_index(store: TinyStore, dataset: CanonicalDataset) -> None:
    np.testing.assert_array_equal(dataset.read(4, ["zos"]), store.expected([4], ["zos"])[0])


@pytest.mark.parametrize("indices", [[0.0], [True], ["a"]])
def test_indices_must_be_integers(dataset: CanonicalDataset, indices: Any) -> None:
    with pytest.raises(TypeError, match="expected integers"):
        dataset.read(indices, ["zos"])


@pytest.mark.parametrize("index", [20, -21])
def test_an_index_outside_is_an_index_error(dataset: CanonicalDataset, index: int) -> None:
    with pytest.raises(IndexError, match=f"got index {index}, expected below 20 rows"):
        dataset.read([0, index], ["zos"])


def test_an_unknown_channel_is_a_key_error(dataset: CanonicalDataset) -> None:
    with pytest.raises(KeyError, match=r"unknown channels zoss \(zoss: near zos"):
        dataset.read([0], ["zoss"])
    assert unknown_channels(["zos"], dataset.channels) is None


def test_a_slice_of_a_slice_still_reads_its_own_rows(
    store: TinyStore, dataset: CanonicalDataset
) -> None:
    # Pentads from 1958-01-03; row r is 5 r days later.
    train = dataset.between("1958-01-23", "1958-03-14")
    later = train.between("1958-02-02", "1958-02-12")

    assert train.rows.tolist() == list(range(4, 15))
    assert later.rows.tolist() == [6, 7, 8]
    assert [str(t)[:10] for t in later.time] == ["1958-02-02", "1958-02-07", "1958-02-12"]
    np.testing.assert_array_equal(later.read([0, -1], ["so_1"]), store.expected([6, 8], ["so_1"]))
    with pytest.raises(IndexError):
        later.read([3], ["so_1"])
    assert later.name == ("time=[1958-02-02, 1958-02-12][time=[1958-01-23, 1958-03-14][OM4.zarr]]")
    assert len(dataset.time) == 20


def test_a_shared_date_is_found_and_an_exclusive_end_drops_it(dataset: CanonicalDataset) -> None:
    train = dataset.between("1958-01-03", "1958-02-12")
    val = dataset.between("1958-02-12", "1958-03")

    assert [str(t) for t in shared_rows(train, val)] == ["1958-02-12 12:00:00"]
    exclusive = dataset.between("1958-01-03", "1958-02-12", exclusive_end=True)
    assert shared_rows(exclusive, val) == ()
    assert str(exclusive.time[-1])[:10] == "1958-02-07"


def test_dates_in_two_calendars_are_not_compared(dataset: CanonicalDataset, tmp_path: Path) -> None:
    other = tiny_store(tmp_path, rows=1, calendar="noleap").open()

    with pytest.raises(UsageError, match=r"got calendars julian .* and noleap"):
        shared_rows(dataset, other)


def test_arrays_cannot_be_written(dataset: CanonicalDataset) -> None:
    for array in (dataset.lat, dataset.lon, dataset.rows, dataset.time):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = array[1]


class Constant:
    """A reader that returns the row numbers it is asked for."""

    def __init__(self, channels: tuple[str, ...]) -> None:
        self.channels = channels

    def read(self, rows: Any, channels: Any) -> Any:
        planes = np.ones((len(channels), 4, 6), np.float32)
        return rows[..., None, None, None].astype(np.float32) * planes


def test_another_reader_gets_physical_rows(dataset: CanonicalDataset) -> None:
    sliced = dataset.with_reader(Constant(dataset.channels)).between("1958-01-23", "1958-03-14")

    assert (sliced.read([0, 2], ["zos"])[:, 0, 0, 0] == [4, 6]).all()
    assert sliced.masks is dataset.masks
    with pytest.raises(UsageError, match="got channels"):
        dataset.with_reader(Constant(("zos",)))


def test_normalize_maps_nan_to_zero_and_infinity_to_the_largest(
    dataset: CanonicalDataset,
) -> None:
    x = np.zeros((2, 1, 4, 6), np.float32)
    x[1, 0, 0, :3] = [np.nan, np.inf, -np.inf]

    normal = dataset.normalize(x, ["zos"])

    largest = np.finfo(np.float32).max
    assert normal[1, 0, 0, :3].tolist() == [0, largest, -largest]
    assert np.isnan(x[1, 0, 0, 0]), "the input is left alone"


def test_unnormalize_undoes_normalize_on_wet_cells(dataset: CanonicalDataset) -> None:
    channels = ["so_2", "zos"]
    values = dataset.read([1, 2], channels)

    back = dataset.unnormalize(dataset.normalize(values, channels), channels)
    filled = dataset.unnormalize(values, channels, fill=-1)

    np.testing.assert_allclose(back, values, rtol=1e-5)
    for position, channel in enumerate(channels):
        assert (filled[:, position][:, ~dataset.masks[channel]] == -1).all()


def test_torch_tensors_give_the_same_numbers(dataset: CanonicalDataset) -> None:
    torch = pytest.importorskip("torch")
    channels = ["so_2", "zos"]
    values = dataset.read([[1, 2]], channels)

    normal = dataset.normalize(torch.from_numpy(values), channels)
    back = dataset.unnormalize(normal, channels, fill=-1.0)

    assert normal.dtype == torch.float32
    expected = dataset.normalize(values, channels)
    np.testing.assert_array_equal(normal.numpy(), expected)
    np.testing.assert_array_equal(back.numpy(), dataset.unnormalize(expected, channels, fill=-1))


def test_a_wrong_channel_count_or_type_is_refused(dataset: CanonicalDataset) -> None:
    with pytest.raises(UsageError, match=r"got shape \(3, 4, 6\), expected 2 channels on axis -3"):
        dataset.normalize(np.zeros((3, 4, 6), np.float32), ["so_0", "zos"])
    with pytest.raises(UsageError, match="got dtype float64, expected float32"):
        dataset.normalize(np.zeros((1, 4, 6)), ["zos"])


def test_a_dataset_pickles_small_and_is_reopened(
    store: TinyStore, dataset: CanonicalDataset
) -> None:
    sliced = dataset.between("1958-01-23", "1958-03-14")

    data = pickle.dumps(sliced)
    again = pickle.loads(pickle.dumps(pickle.loads(data)))

    assert len(data) < 2000
    assert again.name == sliced.name
    assert again.rows.tolist() == sliced.rows.tolist()
    assert again.between("1958-02", "1958-02").rows.tolist() == [6, 7, 8, 9, 10, 11]
    np.testing.assert_array_equal(again.read([0], ["so_1"]), store.expected([4], ["so_1"]))


def test_a_store_rewritten_under_a_pickle_is_noticed(tmp_path: Path) -> None:
    store = tiny_store(tmp_path / "s", rows=6)
    data = pickle.dumps(store.open())
    tiny_store(tmp_path / "s", rows=5)
    with pytest.raises(FormatError, match=r"expected 1958-01-03 12:00:00 to 1958-01-28 12:00:00"):
        len(pickle.loads(data).time)
    shutil.rmtree(store.data)
    with pytest.raises(StoreError, match="no such store"):
        len(pickle.loads(data).time)


@pytest.mark.parametrize("kind", [StoreError, FormatError, UsageError, DecodeError])
def test_errors_pickle_with_their_text(kind: type[Exception]) -> None:
    error = pickle.loads(pickle.dumps(kind("zos: chunk 1.0.0 is absent\n  store: a b/c%20d")))

    assert type(error) is kind
    assert str(error) == "zos: chunk 1.0.0 is absent\n  store: a b/c%20d"


def test_opening_reads_no_field_chunk(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, rows=3)
    for variable in (*store.prognostic, *store.boundary):
        for chunk in (store.data / variable).glob("[0-9]*"):
            chunk.unlink()

    sliced = store.open().between("1958-01-08", "1958-01-13")

    assert len(sliced.time) == 2
    with pytest.raises(StoreError, match=r"zos: chunk 1.0.0 is absent"):
        sliced.read([0], ["zos"])


def test_importing_the_data_layer_needs_no_torch() -> None:
    code = "import sys, niskin.om4; sys.exit('torch' in sys.modules)"

    result = subprocess.run([sys.executable, "-c", code], timeout=60, check=False)

    assert result.returncode == 0
