from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from niskin.bad_values import count_bad
from niskin.errors import DecodeError, FormatError, StoreError
from stores import TinyStore, change_json, copy_of, tiny_store


@pytest.fixture(scope="module")
def templates(tmp_path_factory: pytest.TempPathFactory) -> dict[str, TinyStore]:
    root = tmp_path_factory.mktemp("templates")
    return {
        "flat": tiny_store(root / "flat", rows=6, consolidated=False),
        "blosc": tiny_store(
            root / "blosc", rows=6, ny=20, nx=30, codec="blosc-lz4", consolidated=False
        ),
        "zlib": tiny_store(root / "zlib", rows=6, codec="zlib", consolidated=False),
        "compact": tiny_store(
            root / "compact", layout="compact", rows=6, levels_per_chunk=1, cell_chunks=(2, 3),
            consolidated=False,
        ),
    }  # fmt: skip


@pytest.fixture
def store(
    request: pytest.FixtureRequest, templates: dict[str, TinyStore], tmp_path: Path
) -> TinyStore:
    return copy_of(templates[getattr(request, "param", "flat")], tmp_path / "store")


def test_an_absent_chunk_with_a_wet_cell_is_an_error_only_where_read(store: TinyStore) -> None:
    (store.data / "thetao_1" / "3.0.0").unlink()
    dataset = store.open()

    assert dataset.read([0, 1, 2, 4, 5], ["thetao_1", "zos"]).shape == (5, 2, 4, 6)
    assert dataset.read([3], ["thetao_0"]).shape == (1, 1, 4, 6)
    with pytest.raises(StoreError) as caught:
        dataset.read([2, 3], ["zos", "thetao_1"])
    lines = str(caught.value).splitlines()
    assert lines[0] == "thetao_1: chunk 3.0.0 is absent"
    assert lines[1] == f"  store: {store.data}"
    assert lines[2].startswith("  hint:  it holds wet cells, so it was lost")


def test_several_absent_chunks_are_counted(store: TinyStore) -> None:
    for row in (1, 3, 4):
        (store.data / "zos" / f"{row}.0.0").unlink()

    with pytest.raises(StoreError, match=r"^zos: chunk 1.0.0 is absent, and 2 more"):
        store.open().read(np.arange(6), ["zos"])


def test_the_policies_warn_and_fill_read_the_fill_value(store: TinyStore) -> None:
    (store.data / "zos" / "3.0.0").unlink()
    change_json(store.data / "hfds" / ".zarray", fill_value=0.0)
    (store.data / "hfds" / "3.0.0").unlink()

    with pytest.warns(UserWarning, match=r"zos: chunk 3.0.0 is absent; read as fill"):
        warned = store.open(missing_chunks="warn").read([3], ["zos"])
    filled = store.open(missing_chunks="fill").read([3], ["zos", "hfds"])

    assert np.isnan(warned).all()
    assert np.isnan(filled[0, 0]).all()
    assert (filled[0, 1] == 0).all()


@pytest.mark.parametrize("store", ["compact"], indirect=True)
def test_an_absent_chunk_without_a_wet_cell_reads_as_fill(store: TinyStore) -> None:
    """Chunks of one level and 2 x 3 cells, keys (level, row, y, x)."""
    for level in range(3):
        dry = ~store.masks[f"so_{level}"]
        for y, x in np.ndindex(2, 2):
            if dry[2 * y : 2 * y + 2, 3 * x : 3 * x + 3].all():
                (store.data / "so" / f"{level}.2.{y}.{x}").unlink()
    wet_corner = store.masks["so_0"][2:, 3:]
    assert wet_corner.any()
    channels = ["so_0", "so_1", "so_2"]
    dataset = store.open()

    np.testing.assert_array_equal(dataset.read([2], channels), store.expected([2], channels))
    (store.data / "so" / "2.2.1.1").unlink()
    with pytest.raises(StoreError, match=r"^so: chunk 2.2.1.1 is absent"):
        dataset.read([2], channels)
    assert dataset.read([2], ["so_0", "so_1"]).shape == (1, 2, 4, 6)


def test_an_all_dry_channel_needs_no_chunk(store: TinyStore) -> None:
    (store.data / "mask_2" / "0.0").unlink()
    change_json(store.data / "mask_2" / ".zarray", fill_value=0)
    for row in range(6):
        (store.data / "so_2" / f"{row}.0.0").unlink()

    assert np.isnan(store.open().read(np.arange(6), ["so_2"])).all()


@pytest.mark.parametrize("length", [0, 1, 95, 97, 200])
def test_an_uncompressed_chunk_of_another_length_is_damage(store: TinyStore, length: int) -> None:
    (store.data / "zos" / "2.0.0").write_bytes(b"\0" * length)

    for policy in ("error", "fill"):
        with pytest.raises(
            DecodeError,
            match=rf"^zos: chunk 2.0.0: got {length} bytes, expected 96 \(float32, 1x4x6\)",
        ):
            store.open(missing_chunks=policy).read([2], ["zos"])


@pytest.mark.parametrize("store", ["blosc"], indirect=True)
@pytest.mark.parametrize("cut", [0, 8, 16, 100, -1, 1])
def test_a_blosc_chunk_of_another_length_than_its_header_says_is_damage(
    store: TinyStore, cut: int
) -> None:
    """A lost tail can decode to wrong numbers without an error, so the length counts."""
    chunk = store.data / "so_0" / "2.0.0"
    encoded = chunk.read_bytes()
    damaged = encoded + b"\0" if cut == 1 else encoded[:cut]
    chunk.write_bytes(damaged)

    with pytest.raises(DecodeError, match=rf"^so_0: chunk 2.0.0: got {len(damaged)} bytes, exp"):
        store.open().read([2], ["so_0"])


@pytest.mark.parametrize("store", ["blosc"], indirect=True)
def test_a_blosc_chunk_that_holds_another_size_is_damage(store: TinyStore) -> None:
    chunk = store.data / "so_0" / "2.0.0"
    encoded = bytearray(chunk.read_bytes())
    encoded[4:8] = (1 << 31).to_bytes(4, "little")
    chunk.write_bytes(encoded)

    with pytest.raises(DecodeError, match="blosc holds 2147483648 bytes, expected 2400"):
        store.open().read([2], ["so_0"])


@pytest.mark.parametrize("store", ["zlib"], indirect=True)
def test_a_chunk_that_does_not_decode_is_named(store: TinyStore) -> None:
    chunk = store.data / "zos" / "4.0.0"
    chunk.write_bytes(chunk.read_bytes()[:-3])

    with pytest.raises(DecodeError, match=r"^zos: chunk 4.0.0: cannot be decoded: (?s:.*)store: "):
        store.open().read(np.arange(6), ["so_0", "zos"])


def make_dangling(path: Path) -> None:
    path.symlink_to(path.parent / "gone")


def make_loop(path: Path) -> None:
    path.symlink_to(path)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (make_dangling, "No such file"),
        (make_loop, "symbolic links"),
        (Path.mkdir, "not a regular file"),
        (os.mkfifo, "not a regular file"),
    ],
)
def test_only_a_key_that_is_not_there_is_absent(store: TinyStore, make: Any, message: str) -> None:
    chunk = store.data / "zos" / "2.0.0"
    chunk.unlink()
    make(chunk)

    with pytest.raises(StoreError, match=rf"^zos: chunk 2.0.0: cannot be read: .*{message}"):
        store.open(missing_chunks="fill").read([2], ["zos"])


def test_a_symlinked_chunk_is_read(store: TinyStore, tmp_path: Path) -> None:
    chunk = store.data / "zos" / "2.0.0"
    chunk.rename(tmp_path / "elsewhere")
    chunk.symlink_to(tmp_path / "elsewhere")

    np.testing.assert_array_equal(store.open().read([2], ["zos"]), store.expected([2], ["zos"]))


def test_chunks_under_the_other_separator_are_never_fill(store: TinyStore, tmp_path: Path) -> None:
    change_json(store.data / "zos" / ".zarray", dimension_separator="/")
    with pytest.raises(FormatError, match=r"zos: chunk keys: got .* 0\.0\.0, expected 0/0/0"):
        store.open(missing_chunks="fill").read([2], ["zos"])

    nested = tiny_store(tmp_path / "nested", rows=1, separator="/", consolidated=False)
    change_json(nested.data / "zos" / ".zarray", dimension_separator=...)
    with pytest.raises(FormatError, match=r"zos: chunk keys: got .* 0/0/0, expected 0\.0\.0"):
        nested.open().read([0], ["zos"])


@pytest.mark.parametrize(
    ("attributes", "fill_value", "sentinels"),
    [
        ({"_FillValue": 1e20}, "NaN", [1e20]),
        ({"missing_value": [1e20]}, None, [1e20]),
        ({"missing_value": [1e20, -99.0], "_FillValue": float("nan")}, 0.0, [1e20, -99]),
        ({"missing_value": "-9.96921e36"}, None, [-9.96921e36]),
        ({}, 1e20, [1e20]),
        ({"_FillValue": 0.0}, 0.0, [0.0]),
        ({}, 0.0, []),
        ({}, None, []),
        ({}, "NaN", []),
        ({}, "-Infinity", [-np.inf]),
    ],
)
def test_missing_markers_read_as_nan(
    store: TinyStore, attributes: dict[str, Any], fill_value: Any, sentinels: list[float]
) -> None:
    change_json(store.data / "zos" / ".zattrs", **attributes)
    change_json(store.data / "zos" / ".zarray", fill_value=fill_value)
    values = np.array([0, 1, 1e20, -99, -9.96921e36, -np.inf], "<f4")
    plane = np.broadcast_to(values, (4, 6))
    (store.data / "zos" / "2.0.0").write_bytes(plane.tobytes())

    dataset = store.open()
    row = dataset.read([2], ["zos"])[0, 0, 0]

    marks = np.array(sentinels, "<f4")
    assert np.array(dataset.sentinels("zos"), "<f4").tolist() == marks.tolist()
    np.testing.assert_array_equal(row, np.where(np.isin(values, marks), np.nan, values))


def test_a_marker_that_is_not_a_number_is_refused(store: TinyStore) -> None:
    change_json(store.data / "zos" / ".zattrs", missing_value="none")

    with pytest.raises(FormatError, match="zos: attribute missing_value: got 'none', expected a"):
        store.open()


def test_bad_values_are_counted_in_wet_cells_only() -> None:
    mask = np.array([[True, True, False], [True, True, True]])
    values = np.zeros((2, 2, 3), np.float32)
    assert count_bad(values, mask) is None
    values[0, 0, 2] = np.nan  # land
    assert count_bad(values, mask) is None
    values[1, 0, 1] = np.inf
    values[1, 1, 0] = np.nan

    bad = count_bad(values, mask)

    assert bad is not None
    assert (bad.count, bad.first) == (2, (1, 0, 1))
    assert bad.describe("zos", "1958-01-03 12:00:00").startswith(
        "zos: 1958-01-03 12:00:00: got NaN or infinity in 2 wet cells, first at (1, 0, 1)"
    )
