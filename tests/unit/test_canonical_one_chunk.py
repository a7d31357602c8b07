from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from niskin.errors import DecodeError, StoreError
from niskin.raw_store import RawArray, RawStore, open_raw_store
from stores import Codec, TinyStore, tiny_store, write_array

CODECS: tuple[Codec, ...] = ("none", "lz4", "zstd", "blosc-lz4", "blosc-zstd", "zlib", "gzip")


def written(path: Path, values: Any, **options: Any) -> RawArray:
    """`values` as the array `a` of a new store, opened."""
    group = zarr.open_group(path, mode="w", zarr_format=2)
    dims = ("lev", "y", "x")[: np.ndim(values)]
    write_array(group, "a", np.asarray(values), dims, **options)
    return open_raw_store(path).array("a")


def through_zarr(array: RawArray) -> Any:
    return zarr.open_group(array.store, mode="r")["a"][...]  # type: ignore[index]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("dtype", ["<f4", ">f8", "<i2", "|b1", "|u1"])
def test_an_array_of_one_chunk_reads_as_zarr_python_reads_it(
    tmp_path: Path, codec: Codec, dtype: str
) -> None:
    values = (np.arange(24).reshape(2, 3, 4) % 7 * 1.5).astype(dtype)
    array = written(tmp_path / "s", values, codec=codec)
    assert array.dtype == np.dtype(dtype)

    np.testing.assert_array_equal(through_zarr(array), values)
    np.testing.assert_array_equal(array.read(), values)
    assert "variable" not in vars(array)  # xarray and zarr-python were not asked


@pytest.mark.parametrize(
    ("shape", "chunks", "order", "separator"),
    [
        ((), (), "C", "."),
        ((2, 3, 4), (2, 3, 4), "F", "/"),
        ((2, 3, 4), (5, 3, 7), "C", "."),
        ((2, 3, 4), (5, 3, 7), "F", "/"),
    ],
    ids=["0-d", "Fortran order", "clipped", "clipped, Fortran order"],
)
def test_order_separator_and_clipping_of_one_chunk_are_kept(
    tmp_path: Path, shape: Any, chunks: Any, order: Any, separator: Any
) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype="f4").reshape(shape)
    array = written(
        tmp_path / "s", values, chunks=chunks, order=order, separator=separator, codec="zstd"
    )

    np.testing.assert_array_equal(through_zarr(array), values)
    np.testing.assert_array_equal(array.read(), values)
    assert "variable" not in vars(array)


def test_arrays_of_several_chunks_and_parts_of_one_go_through_xarray(tmp_path: Path) -> None:
    values = np.arange(24, dtype="f4").reshape(2, 3, 4)
    several = written(tmp_path / "several", values, chunks=(1, 3, 4))
    one = written(tmp_path / "one", values)

    np.testing.assert_array_equal(several.read(), values)
    np.testing.assert_array_equal(one.read(lev=-1), values[1])
    assert "variable" in vars(several)
    assert "variable" in vars(one)


def test_an_absent_chunk_is_the_fill_value_and_markers_are_missing_values(tmp_path: Path) -> None:
    absent = written(tmp_path / "absent", np.ones(3, "i2"), fill_value=7)
    (tmp_path / "absent" / "a" / "0").unlink()
    marked = written(
        tmp_path / "marked", np.array([0, 1, 5], "i2"), fill_value=0, attributes={"_FillValue": 5}
    )

    assert np.isnan(absent.read()).all()  # decision 5: a fill value that is not 0 marks
    np.testing.assert_array_equal(marked.read(), [0, 1, np.nan])
    with pytest.raises(StoreError, match=r"^a: chunk 0 is absent"):
        absent.read(required=True)


@pytest.mark.parametrize("codec", ["zlib", "zstd", "lz4", "gzip"])
def test_a_damaged_chunk_is_named(tmp_path: Path, codec: Codec) -> None:
    array = written(tmp_path / "s", np.arange(64, dtype="f4"), codec=codec)
    (tmp_path / "s" / "a" / "0").write_bytes(b"\x00\x01damaged")

    with pytest.raises(DecodeError, match=r"^a: cannot be decoded: .*\n  store: .*/s$"):
        array.read()


def test_a_chunk_that_decodes_to_another_length_is_damage(tmp_path: Path) -> None:
    array = written(tmp_path / "s", np.arange(8, dtype="f4"), codec="zlib")
    other = written(tmp_path / "t", np.arange(4, dtype="f4"), codec="zlib")
    (Path(array.store) / "a" / "0").write_bytes((Path(other.store) / "a" / "0").read_bytes())

    with pytest.raises(DecodeError, match="decoded 4 values, expected 8"):
        array.read()


def test_opening_builds_no_variable_but_that_of_a_mask_with_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of statistics, masks and coordinates, all one chunk each, xarray sees nothing."""
    opened: list[RawStore] = []

    def remember(path: str) -> RawStore:
        opened.append(open_raw_store(path))
        return opened[-1]

    monkeypatch.setattr("niskin.om4.open_raw_store", remember)
    plain: TinyStore = tiny_store(tmp_path / "plain", rows=3)
    timed: TinyStore = tiny_store(tmp_path / "timed", rows=3, mask="stacked-time")

    def built(store: TinyStore) -> list[str]:
        opened.clear()
        store.open()
        assert [raw.path for raw in opened] == [
            str(p) for p in (store.data, store.means, store.stds)
        ]
        return [a.name for raw in opened for a in raw._arrays.values() if "variable" in vars(a)]

    assert built(plain) == []
    assert built(timed) == ["wetmask"]
