from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import zarr

import niskin.om4
from niskin.errors import FormatError, StoreError, UsageError
from stores import TinyStore, copy_of, tiny_store, write_array


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("template"), rows=2)


@pytest.fixture
def store(template: TinyStore, tmp_path: Path) -> TinyStore:
    return copy_of(template, tmp_path / "store")


def set_value(path: Path, name: str, value: Any, dims: Any = (), **options: Any) -> None:
    write_array(zarr.open_group(path, mode="r+"), name, np.asarray(value), dims, **options)
    zarr.consolidate_metadata(path, zarr_format=2)


@pytest.mark.parametrize("value", [-0.02, 0.0, np.nan, np.inf, 1e-60])
def test_a_std_that_would_deliver_wrong_numbers_is_refused(store: TinyStore, value: float) -> None:
    """1e-60 is above 0 as float64, and 0 as the float32 that data are divided by."""
    set_value(store.stds, "zos", np.float64(value))

    with pytest.raises(FormatError, match=rf"^std: got zos {value:g}, expected finite and above 0"):
        store.open()


def test_every_bad_std_is_listed(store: TinyStore) -> None:
    set_value(store.stds, "zos", np.float32(0))
    set_value(store.stds, "so_1", np.float32(-1))

    with pytest.raises(FormatError, match="got so_1 -1, zos 0,"):
        store.open()


def test_a_mean_that_is_not_finite_is_refused(store: TinyStore) -> None:
    set_value(store.means, "zos", np.float32(np.nan))

    with pytest.raises(FormatError, match=r"^mean: got zos nan, expected finite where wet"):
        store.open()


@pytest.mark.parametrize("value", [0.0, np.nan, -1.0])
def test_a_channel_without_a_wet_cell_may_have_any_std(store: TinyStore, value: float) -> None:
    set_value(store.data, "mask_2", np.zeros((4, 6), "i1"), ("y", "x"))
    set_value(store.stds, "so_2", np.float32(value))

    assert np.isclose(store.open().statistics(["so_2"])[1], value, equal_nan=True)


def test_the_same_statistics_twice_are_refused(store: TinyStore, tmp_path: Path) -> None:
    link = tmp_path / "link.zarr"
    link.symlink_to(store.means)
    for stds in (store.means, link):
        with pytest.raises(UsageError, match="got one store for both"):
            niskin.om4.open_om4(store.data, store.means, stds, prognostic=["zos"])

    for name in ("zos", "hfds"):
        set_value(store.means, name, store.std[name])
    with pytest.raises(FormatError, match="got equal values for all of 2 channels"):
        store.open(prognostic=["zos"], boundary=["hfds"])


def test_a_variable_of_another_shape_is_refused(store: TinyStore) -> None:
    set_value(store.means, "zos", np.zeros(3, "f4"), ("time",))

    with pytest.raises(
        FormatError, match=r"^zos: means: got dimensions \('time',\), expected \(\)"
    ):
        store.open()


def test_an_absent_value_is_never_a_fill_value(store: TinyStore) -> None:
    set_value(store.means, "zos", np.float32(3), fill_value=3)
    (store.means / "zos" / "0").unlink()

    with pytest.raises(StoreError, match=r"^zos: chunk 0 is absent\n  store: .*OM4_means.zarr"):
        store.open()


def test_levels_at_other_depths_are_refused(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, layout="compact", rows=1)
    set_value(store.stds, "lev", [2.5, 22.5, 10.0], ("lev",))

    with pytest.raises(FormatError, match=r"uo_1: level: its stds lies at 22.5 m, expected 10 m"):
        store.open()


def test_statistics_of_channels_that_are_not_asked_do_not_matter(store: TinyStore) -> None:
    set_value(store.stds, "mask_0", np.float32(0))
    set_value(store.stds, "zos", np.float32(0))

    assert store.open(prognostic=["so_0"], boundary=["hfds"]).channels == ("so_0", "hfds")


def test_the_order_is_the_one_asked_and_the_type_the_common_one(store: TinyStore) -> None:
    set_value(store.means, "zos", np.float64(34.7))
    set_value(store.means, "hfds", np.array(7, ">i2"))
    dataset = store.open()

    assert dataset.statistics(["hfds", "so_1"])[0].tolist() == [7.0, store.mean["so_1"]]
    assert dataset.statistics(["zos", "so_1"])[0].tolist() == [34.7, store.mean["so_1"]]
    assert dataset.statistics(["so_1", "so_0"])[0].dtype == np.float32
    with pytest.raises(KeyError, match="unknown channels abc, so_9"):
        dataset.statistics(["so_9", "zos", "abc"])


def test_netcdf_statistics_of_float64_keep_their_type(store: TinyStore, tmp_path: Path) -> None:
    paths = []
    for name, value in (("m", 34.7), ("s", 0.0123)):
        paths.append(tmp_path / f"{name}.nc")
        xr.Dataset({"so_0": value, "zos": value + 1}).to_netcdf(paths[-1], engine="h5netcdf")

    dataset = niskin.om4.open_om4(store.data, *paths, prognostic=["so_0"], boundary=["zos"])

    assert dataset.statistics(["so_0"])[0].tolist() == [34.7]


def test_normalizing_casts_statistics_first_and_divides(store: TinyStore) -> None:
    """Dividing in float64 would give 0.09992646, multiplying by 1 / std 0.09986443."""
    set_value(store.means, "zos", np.float64(34.7))
    set_value(store.stds, "zos", np.float64(0.0123))
    x = np.full((1, 4, 6), 34.70123, np.float32)

    normal = store.open().normalize(x, ["zos"])

    expected = (x - np.float32(34.7)) / np.float32(0.0123)
    assert normal.dtype == np.float32
    np.testing.assert_array_equal(normal, expected)
    assert f"{normal[0, 0, 0]:.8f}" == "0.09986444"
