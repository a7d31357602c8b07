"""Any float32 that a store may hold becomes the number of the definition, in both loaders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr

from niskin import CpuLoader, NativeLoader, TrainingShard
from prepared import prepare
from same_bits import assert_same_batches, bits
from stores import TinyStore, tiny_store

NY, NX = 60, 91  # several vectors and a rest, several Blosc blocks
ROWS = 6


def every_kind_of_float(count: int) -> np.ndarray[Any, np.dtype[np.float32]]:
    """Random bit patterns, and the special ones: zeros, subnormals, infinities, NaN payloads."""
    patterns = np.random.default_rng(11).integers(0, 2**32, count, dtype=np.uint32)
    special = [
        0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007FFFFF, 0x00800000, 0x7F7FFFFF,
        0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0x7FC00000, 0xFFC00000, 0xFFFFFFFF,
    ]  # fmt: skip
    patterns[:: count // len(special)][: len(special)] = special
    return patterns.view(np.float32)


@pytest.fixture(scope="module", params=["<f4-none", ">f4-none", "<f4-blosc-lz4", ">f4-zstd"])
def wild(tmp_path_factory: pytest.TempPathFactory, request: Any) -> TinyStore:
    """A store whose zos holds any bit pattern, on land too."""
    dtype, codec = request.param.split("-", 1)
    path = tmp_path_factory.mktemp("wild")
    store = tiny_store(path, rows=ROWS, ny=NY, nx=NX, levels=1, dtype=dtype, codec=codec)
    values = every_kind_of_float(ROWS * NY * NX).reshape(ROWS, NY, NX)
    zarr.open_group(store.data, mode="a", zarr_format=2)["zos"][...] = values
    return store


def set_statistics(store: TinyStore, mean: float, std: float) -> None:
    for place, value in ((store.means, mean), (store.stds, std)):
        zarr.open_group(place, mode="a", zarr_format=2)["zos"][...] = np.float32(value)


@pytest.mark.parametrize(
    ("fill", "normalize_first"), [(0.0, True), (-0.0, False), (-1.0, False), (3e38, True)]
)
@pytest.mark.parametrize(
    ("mean", "std"), [(0.0, 1.0), (20.1, 0.003), (-3e38, 7.0), (2e-40, 1e-40), (0.1, 3e38)]
)
def test_any_bit_pattern(
    wild: TinyStore, mean: float, std: float, fill: float, normalize_first: bool
) -> None:
    set_statistics(wild, mean, std)
    source = wild.open(prognostic=("zos",), boundary=("zos",), bad_values="ignore")
    shard = TrainingShard(
        source, hist=0, steps=1, normalize_before_mask=normalize_first, masked_fill_value=fill
    )
    schedule = [[0, 3], [4]]
    cpu = list(CpuLoader([shard], schedule))
    with NativeLoader([shard], schedule) as loader:
        native = list(loader)
    assert_same_batches(native, cpu)
    values = every_kind_of_float(ROWS * NY * NX).reshape(ROWS, NY, NX)
    for row, tensor in ((0, native[0][0].prognostic[0, 0]), (5, native[1][0].label[0, 0])):
        expected = prepare(
            values[row], wild.masks["zos"], np.float32(mean), np.float32(std),
            fill=fill, normalize_first=normalize_first,
        )  # fmt: skip
        assert np.array_equal(bits(tensor), bits(expected))
        assert np.isfinite(expected).all()


@pytest.mark.parametrize("codec", ["none", "blosc-lz4"])
def test_published_example_of_both_orders(tmp_path: Path, codec: Any) -> None:
    store = tiny_store(tmp_path, rows=3, ny=1, nx=4, levels=1, codec=codec)
    root = zarr.open_group(store.data, mode="a", zarr_format=2)
    root["zos"][...] = np.array([[[10, np.nan, 30, 40]]] * 3, np.float32)
    root["mask_0"][...] = np.array([[1, 1, 0, 0]])
    set_statistics(store, 20.0, 8.0)
    expected = {True: [-1.25, 0, -1, -1], False: [-1.25, 0, -2.625, -2.625]}
    source = store.open(prognostic=("zos",), boundary=("zos",), bad_values="ignore")
    for normalize_first, result in expected.items():
        shard = TrainingShard(
            source, hist=0, steps=1, normalize_before_mask=normalize_first, masked_fill_value=-1
        )
        with NativeLoader([shard], [[0]]) as loader:
            (batch,) = loader
        assert [tensor.flatten().tolist() for tensor in batch[0]] == [result] * 3
