from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from niskin.errors import FormatError
from stores import TinyStore, change_json, copy_of, tiny_store, write_array


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TinyStore]:
    root = tmp_path_factory.mktemp("templates")
    return {
        layout: tiny_store(root / layout, layout=layout, rows=3, consolidated=False)
        for layout in ("flat", "compact", "depth-names")
    }


@pytest.fixture
def flat(templates: dict[str, TinyStore], tmp_path: Path) -> TinyStore:
    return copy_of(templates["flat"], tmp_path / "flat")


@pytest.fixture
def compact(templates: dict[str, TinyStore], tmp_path: Path) -> TinyStore:
    return copy_of(templates["compact"], tmp_path / "compact")


def rewrite(store: TinyStore, name: str, values: Any, dims: Any, **options: Any) -> None:
    root = zarr.open_group(store.data, mode="r+")
    write_array(root, name, np.asarray(values), dims, **options)


def test_channels_of_a_level_share_one_mask_and_surface_channels_use_the_top(
    flat: TinyStore,
) -> None:
    masks = flat.open().masks

    assert masks["thetao_1"] is masks["so_1"]
    assert masks["zos"] is masks["hfds"] is masks["thetao_0"]
    assert not masks["zos"].flags.writeable
    with pytest.raises(TypeError):
        masks["zos"] = masks["so_1"]  # type: ignore[index]


@pytest.mark.parametrize("dtype", ["|b1", "|i1", "|u1", "<i4", "<f4", ">f8"])
def test_a_mask_of_any_number_type_is_read(flat: TinyStore, dtype: str) -> None:
    rewrite(flat, "mask_0", flat.masks["zos"].astype(dtype), ("y", "x"), fill_value=0)

    np.testing.assert_array_equal(flat.open().masks["zos"], flat.masks["zos"])


def test_wet_is_finite_and_above_zero(flat: TinyStore) -> None:
    values = np.ones((4, 6), "<f4")
    values[0] = [np.nan, 0, 0.2, -1, np.inf, 1e20]
    rewrite(flat, "mask_0", values, ("y", "x"), attributes={"missing_value": 1e20})

    assert flat.open().masks["zos"][0].tolist() == [False, False, True, False, False, False]


def test_a_fill_value_of_zero_marks_nothing(flat: TinyStore) -> None:
    """xarray would turn dry cells into NaN, and NaN into True."""
    rewrite(flat, "mask_0", flat.masks["zos"], ("y", "x"), fill_value=0)
    rewrite(flat, "zos", np.full((3, 4, 6), [0, 1, 2, 0, 1, 2], "<f4"), ("time", "y", "x"),
            chunks=(1, 4, 6), fill_value=0)  # fmt: skip
    rewrite(flat, "y", [-10.0, 0.0, 10.0, 20.0], ("y",), fill_value=0)

    dataset = flat.open()

    assert dataset.masks["zos"].dtype == bool
    assert not dataset.masks["zos"].all()
    assert dataset.read([0], ["zos"])[0, 0, 0].tolist() == [0, 1, 2, 0, 1, 2]
    assert dataset.lat.tolist() == [-10.0, 0.0, 10.0, 20.0]


def test_a_mask_chunk_that_nobody_wrote_is_all_dry(flat: TinyStore) -> None:
    rewrite(flat, "mask_2", np.zeros((4, 6), bool), ("y", "x"), fill_value=0)
    (flat.data / "mask_2" / "0.0").unlink()

    assert not flat.open().masks["thetao_2"].any()


def test_mask_chunks_under_the_other_separator_are_no_dry_ocean(flat: TinyStore) -> None:
    change_json(flat.data / "mask_0" / ".zarray", dimension_separator="/")

    with pytest.raises(FormatError, match=r"mask_0: chunk keys: got .* 0\.0, expected 0/0"):
        flat.open()


def test_a_missing_mask_is_named(flat: TinyStore, compact: TinyStore) -> None:
    (flat.data / "mask_1").rename(flat.data / "moved")
    with pytest.raises(FormatError, match="uo_1: mask: got none, expected mask_1 or wetmask"):
        flat.open()
    assert flat.open(prognostic=["so_0"]).masks["so_0"].any()

    rewrite(compact, "wetmask", np.ones((2, 4, 6), "i1"), ("lev", "y", "x"))
    with pytest.raises(FormatError, match="wetmask: mask: got 2 levels, expected level 2 for uo_2"):
        compact.open()
    assert len(compact.open(prognostic=["so_0", "so_1"]).channels) == 5


def test_more_mask_levels_than_data_levels_are_ignored(compact: TinyStore) -> None:
    mask = np.ones((4, 4, 6), "i1")
    mask[2, 1, 1] = 0
    rewrite(compact, "wetmask", mask, ("lev", "y", "x"))

    assert np.argwhere(~compact.open().masks["so_2"]).tolist() == [[1, 1]]


def test_a_mask_that_changes_in_time_is_refused(compact: TinyStore) -> None:
    mask = np.ones((3, 3, 4, 6), "i1")
    rewrite(compact, "wetmask", mask, ("time", "lev", "y", "x"), chunks=(1, 3, 4, 6))
    assert compact.open().masks["so_2"].all()

    mask[-1, 0, 0, :2] = 0
    rewrite(compact, "wetmask", mask, ("time", "lev", "y", "x"), chunks=(1, 3, 4, 6))
    with pytest.raises(FormatError, match="wetmask: mask: got 2 cells that differ between"):
        compact.open()


@pytest.mark.parametrize(
    ("shape", "dims", "message"),
    [
        ((6, 4), ("x", "y"), r"dimensions \('x', 'y'\), expected lat\|y, lon\|x"),
        ((4, 5), ("y", "x"), r"shape \(4, 5\), expected \(4, 6\)"),
        ((6,), ("x",), r"dimensions \('x',\)"),
    ],
)
def test_a_mask_of_another_form_is_refused(
    flat: TinyStore, shape: tuple[int, ...], dims: tuple[str, ...], message: str
) -> None:
    rewrite(flat, "mask_0", np.ones(shape, "i1"), dims)

    with pytest.raises(FormatError, match=rf"^mask_0: mask: got {message}"):
        flat.open()


def test_mask_levels_at_other_depths_are_refused_where_asked(compact: TinyStore) -> None:
    rewrite(compact, "wetmask", np.ones((3, 4, 6), "i1"), ("mask_lev", "y", "x"))
    rewrite(compact, "mask_lev", [10.0, 2.5, 22.5], ("mask_lev",))

    with pytest.raises(
        FormatError, match=r"uo_0: level: mask wetmask lies at 10 m, expected 2.5 m as in the data"
    ):
        compact.open()
    assert compact.open(prognostic=["so_2"], boundary=["so_2"]).masks["so_2"].all()


def test_mask_levels_are_checked_against_depths_in_names(
    templates: dict[str, TinyStore], tmp_path: Path
) -> None:
    store = copy_of(templates["depth-names"], tmp_path / "named")
    for k in range(3):
        (store.data / f"mask_{k}").rename(tmp_path / f"mask_{k}")
    rewrite(store, "wetmask", np.ones((3, 4, 6), "i1"), ("lev", "y", "x"))
    rewrite(store, "lev", np.array([2.5, 10.0, 40.0], "<f4"), ("lev",))

    with pytest.raises(FormatError, match=r"uo_2: level: mask wetmask lies at 40 m, expected 22.5"):
        store.open()
    rewrite(store, "lev", [0, 1, 2], ("lev",))  # only counts levels, so it says no depth
    assert store.open().masks["so_2"].all()
