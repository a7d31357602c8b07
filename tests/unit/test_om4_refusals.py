from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

import niskin.om4
from niskin.errors import DecodeError, FormatError, StoreError, UsageError
from stores import TinyStore, change_json, copy_of, tiny_store, write_array


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("template"), rows=3, consolidated=False)


@pytest.fixture
def store(template: TinyStore, tmp_path: Path) -> TinyStore:
    return copy_of(template, tmp_path / "store")


def rewrite(store: TinyStore, name: str, values: Any, dims: Any, **options: Any) -> None:
    root = zarr.open_group(store.data, mode="r+")
    write_array(root, name, np.asarray(values), dims, **options)


def test_a_store_that_is_not_there_is_a_store_error(store: TinyStore, tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="no such store") as caught:
        niskin.om4.open_om4(tmp_path / "nowhere.zarr", store.means, store.stds)
    assert f"  store: {tmp_path}/nowhere.zarr" in str(caught.value)

    with pytest.raises(StoreError, match=r"no such store\n.*no_means.nc"):
        niskin.om4.open_om4(store.data, tmp_path / "no_means.nc", store.stds)


def test_what_is_not_a_zarr_group_is_refused(store: TinyStore, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    zarr.open_group(tmp_path / "three", mode="w", zarr_format=3)
    (tmp_path / "text.nc").write_text("not a NetCDF file")

    for location, message in (
        (tmp_path / "empty", "got a directory without .zmetadata or .zgroup"),
        (tmp_path / "file", "got a file, expected a directory"),
        (tmp_path / "three", "Zarr format: got 3, expected 2"),
        (store.data / "zos", "got a single Zarr array"),
    ):
        with pytest.raises(FormatError, match=message):
            niskin.om4.open_om4(location, store.means, store.stds)
    with pytest.raises(StoreError, match="not a NetCDF 4 file"):
        niskin.om4.open_om4(store.data, tmp_path / "text.nc", store.stds)
    with pytest.raises(UsageError, match="expected a local path"):
        niskin.om4.open_om4("s3://bucket/OM4.zarr", store.means, store.stds)


def test_missing_channels_are_listed_by_store_with_near_names(store: TinyStore) -> None:
    with pytest.raises(FormatError) as caught:
        store.open(prognostic=["thetao_7", "soo_1"])

    text = str(caught.value)
    assert text.startswith("channels: data lack thetao_7, soo_1 (thetao_7: have thetao_")
    assert "soo_1: have so_1" in text
    assert "; means lack thetao_7, soo_1" in text
    assert "; stds lack" in text


def test_statistics_that_are_missing_are_named(store: TinyStore) -> None:
    zarr.open_group(store.means, mode="w", zarr_format=2)
    with pytest.raises(FormatError, match=r"^channels: means lack uo_0, uo_1, .* and 6 more"):
        store.open()


def test_anomalies_that_are_not_stored_are_refused_by_name(store: TinyStore) -> None:
    with pytest.raises(FormatError, match=r"data lack hfds_anomalies (?s:.*)but not derived"):
        store.open(boundary="tau_hfds_hfds_anom")


def test_a_level_below_the_deepest_is_refused(tmp_path: Path) -> None:
    compact = tiny_store(tmp_path, layout="compact", rows=1)

    with pytest.raises(FormatError, match=r"data lack so_3 \(so_3: have so_2, so_1, so_0"):
        compact.open(prognostic=["so_3"])


@pytest.mark.parametrize(
    ("dtype", "got"), [("<f8", "float64"), ("<f2", "float16"), ("<i2", "int16"), (">f8", ">f8")]
)
def test_a_field_of_another_type_is_refused_by_name(store: TinyStore, dtype: str, got: str) -> None:
    rewrite(store, "zos", np.zeros((3, 4, 6), dtype), ("time", "y", "x"))

    with pytest.raises(FormatError, match=rf"^zos: dtype: got {got}, expected float32"):
        store.open()


@pytest.mark.parametrize(
    ("shape", "dims", "message"),
    [
        ((3, 4), ("time", "y"), r"zos: dimensions: got \(time, y\), expected \(time, lat\|y, "),
        ((4, 6), ("y", "x"), r"zos: dimensions: got \(y, x\)"),
        ((3, 6, 4), ("time", "x", "y"), r"zos: dimensions: got \(time, x, y\)"),
        ((3, 2, 4, 6), ("time", "z", "y", "x"), r"zos: dimensions: got \(time, z, y, x\)"),
        ((3, 2, 4, 6), ("time", "lev", "y", "x"), r"zos: dimensions: got a level axis"),
        ((2, 4, 6), ("time", "y", "x"), r"zos: shape: got .*'time': 2.*, expected .*'time': 3"),
        ((3, 4, 5), ("time", "y", "x"), r"zos: shape: got .*'x': 5"),
        ((3, 4, 6), ("time", "lat", "lon"), r"zos: shape: got .*'lat': 4.* as in uo_0"),
        ((3, 4, 6), None, r"zos: dimension names: got None, expected 3 of them"),
        ((3, 0, 6), ("time", "y", "x"), r"zos: shape: got \(3, 0, 6\), expected no zero-sized"),
    ],
)  # fmt: skip
def test_a_field_of_another_form_is_refused_by_name(
    store: TinyStore, shape: tuple[int, ...], dims: Any, message: str
) -> None:
    chunks = tuple(max(n, 1) for n in shape)
    rewrite(store, "zos", np.zeros(shape, "<f4"), dims, chunks=chunks)

    with pytest.raises(FormatError, match=message):
        store.open()


def test_packed_fields_and_filters_are_refused_by_name(store: TinyStore) -> None:
    change_json(store.data / "zos" / ".zattrs", scale_factor=0.1)
    change_json(store.data / "hfds" / ".zarray", filters=[{"id": "delta", "dtype": "<f4"}])

    with pytest.raises(FormatError, match="zos: packing: got scale_factor or add_offset"):
        store.open()
    with pytest.raises(FormatError, match="hfds: filters: got delta, expected none"):
        store.open(prognostic=["so_0"])


@pytest.mark.parametrize("name", ["time", "y", "x"])
def test_a_missing_coordinate_is_named(store: TinyStore, name: str) -> None:
    (store.data / name).rename(store.data / f"{name}_old")

    with pytest.raises(FormatError, match=rf"^{name}: coordinate: got none"):
        store.open()


@pytest.mark.parametrize("times", [[1.0, 6.0, 6.0], [1.0, 6.0, 2.0]])
def test_time_that_does_not_increase_is_refused_at_open(tmp_path: Path, times: list[float]) -> None:
    with pytest.raises(FormatError, match=r"^time: .* at index 2(?s:.*)OM4.zarr"):
        tiny_store(tmp_path, rows=3, times=times).open()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prognostic": []}, "prognostic channels: got an empty list"),
        ({"boundary": []}, "boundary channels: got an empty list"),
        ({"boundary": "tau"}, "boundary set: got 'tau', expected one of hfds, tau_hfds"),
        ({"missing_chunks": "no"}, r"missing_chunks: got 'no', expected error \| warn \| fill"),
        ({"bad_values": "no"}, r"bad_values: got 'no', expected error \| warn \| ignore"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    store: TinyStore, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        store.open(**options)


@pytest.mark.parametrize(
    "text",
    [
        '{"a": NaN, "b": Infinity, "c": -Infinity, "d": 1e400, "e": {"f": {"g": [NaN]}}}\n\n',
        '{"a": 1, "a": 2, "big": 9223372036854775807}',
        '\ufeff{"missing": null}',
    ],
)
def test_attributes_that_nobody_uses_never_break_opening(store: TinyStore, text: str) -> None:
    (store.data / ".zattrs").write_text(text, encoding="utf-8")

    assert len(store.open().time) == 3


def test_nan_among_attributes_of_a_consolidated_store_is_read(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, rows=2, consolidated=False)
    change_json(store.data / "zos" / ".zattrs", missing_value=float("nan"), valid_max=float("inf"))
    zarr.consolidate_metadata(store.data, zarr_format=2)
    assert "NaN" in (store.data / ".zmetadata").read_text()

    np.testing.assert_array_equal(store.open().read([1], ["zos"]), store.expected([1], ["zos"]))


def test_metadata_that_cannot_be_parsed_is_a_format_error(store: TinyStore) -> None:
    for text in ("{", "[" * 100_000):
        (store.data / ".zattrs").write_text(text)
        with pytest.raises(FormatError, match="metadata cannot be parsed"):
            store.open()


def test_a_damaged_coordinate_is_a_decode_error(store: TinyStore) -> None:
    chunk = store.data / "time" / "0"
    chunk.write_bytes(chunk.read_bytes()[:-1])

    with pytest.raises(DecodeError, match=r"^time: chunk 0: got \d+ bytes, expected \d+"):
        store.open()


def test_metadata_says_what_a_channel_is(store: TinyStore) -> None:
    change_json(store.data / "zos" / ".zattrs", long_name="Height", units="cm")

    metadata = store.open().metadata

    assert dict(metadata["zos"]) == {"long_name": "Height", "units": "cm"}
    assert metadata["thetao_2"]["units"] == "degC"
    assert json.dumps(dict(metadata["hfds"]))
