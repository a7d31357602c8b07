"""A chunk that is not what it should be: the same kind of error from both loaders, with its
address, after every earlier batch has been delivered; no hang, no partial batch, and the next pass
is clean.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from niskin import CpuLoader, DecodeError, NativeLoader, StoreError, TrainingShard
from stores import Codec, TinyStore, tiny_store

pytestmark = pytest.mark.timeout(60)

BAD_ROW = 5
SCHEDULE = [[k] for k in range(8)]  # hist 0, 1 step: sample k needs rows k and k + 1
GOOD = BAD_ROW - 1  # batches before the first that needs the bad row


def empty(chunk: Path) -> None:
    chunk.write_bytes(b"")


def truncated(chunk: Path) -> None:
    chunk.write_bytes(chunk.read_bytes()[:-1])


def over_long(chunk: Path) -> None:
    chunk.write_bytes(chunk.read_bytes() + b"\0")


def nonsense(chunk: Path) -> None:
    chunk.write_bytes(b"\xff" * chunk.stat().st_size)


def absent(chunk: Path) -> None:
    chunk.unlink()


def directory(chunk: Path) -> None:
    chunk.unlink()
    chunk.mkdir()


def fifo(chunk: Path) -> None:
    chunk.unlink()
    os.mkfifo(chunk)


def dangling_link(chunk: Path) -> None:
    chunk.unlink()
    chunk.symlink_to("nowhere")


def link_loop(chunk: Path) -> None:
    chunk.unlink()
    chunk.symlink_to(chunk.name)


Damage = Callable[[Path], None]
DAMAGED: list[Damage] = [empty, truncated, nonsense]
MISSING: list[Damage] = [absent, directory, fifo, dangling_link, link_loop]
LOADERS = [NativeLoader, CpuLoader]
CODECS: list[Codec] = ["none", "lz4", "zstd", "blosc-lz4", "blosc-zstd", "zlib", "gzip"]


def make(path: Path, codec: Codec) -> TinyStore:
    return tiny_store(path, codec=codec, levels=1, rows=12, ny=8, nx=16)


def loader_of(kind: type[Any], store: TinyStore) -> Any:
    return kind([TrainingShard(store.open(), hist=0, steps=1)], SCHEDULE)


def drain(iterator: Any, into: list[Any]) -> None:
    for batch in iterator:
        into.append(batch)


def expect_failure(kind: type[Any], store: TinyStore, error: type[Exception]) -> str:
    """The message; every earlier batch has come, with the right values, and then nothing."""
    delivered: list[Any] = []
    with loader_of(kind, store) as loader:
        iterator = iter(loader)
        with pytest.raises(error) as raised:
            drain(iterator, delivered)
        assert list(iterator) == []  # exhausted
        assert [b.indices.tolist() for b in delivered] == SCHEDULE[:GOOD]
        for row, batch in enumerate(delivered):
            wet = store.masks["zos"]
            np.testing.assert_array_equal(
                batch[0].prognostic[0, -1].numpy()[wet],
                ((store.truth["zos"][row] - store.mean["zos"]) / store.std["zos"])[wet],
            )
        # A new pass starts clean, and fails at the same place.
        assert len(next(iter(loader)).indices) == 1
    return str(raised.value)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("kind", LOADERS)
def test_a_damaged_chunk_is_a_decode_error_with_its_address(
    tmp_path: Path, kind: type[Any], codec: Codec
) -> None:
    store = make(tmp_path / "store", codec)
    chunk = store.data / "zos" / f"{BAD_ROW}.0.0"
    right = chunk.read_bytes()
    cases = [*DAMAGED] if codec != "none" else [empty, truncated, over_long]
    if kind is NativeLoader and codec != "none":
        cases.append(over_long)
    for damage in cases:
        chunk.write_bytes(right)
        damage(chunk)
        message = expect_failure(kind, store, DecodeError)
        assert "zos" in message, damage.__name__
        assert f"{BAD_ROW}.0.0" in message, damage.__name__
        assert str(store.data) in message, damage.__name__


@pytest.mark.parametrize("kind", LOADERS)
def test_a_chunk_that_cannot_be_read_is_a_store_error_and_never_fill(
    tmp_path: Path, kind: type[Any]
) -> None:
    store = make(tmp_path / "store", "none")
    chunk = store.data / "zos" / f"{BAD_ROW}.0.0"
    for damage in MISSING:
        damage(chunk)
        message = expect_failure(kind, store, StoreError)
        assert "zos" in message, damage.__name__
        assert f"{BAD_ROW}.0.0" in message, damage.__name__
        assert str(store.data) in message, damage.__name__
        if chunk.is_dir() and not chunk.is_symlink():
            chunk.rmdir()
        else:
            chunk.unlink(missing_ok=True)
        chunk.write_bytes(b"")


@pytest.mark.parametrize("bad_row", [0, 8])
@pytest.mark.parametrize("kind", LOADERS)
def test_the_first_and_the_last_batch_may_be_the_bad_one(
    tmp_path: Path, kind: type[Any], bad_row: int
) -> None:
    store = make(tmp_path / "store", "blosc-lz4")
    truncated(store.data / "zos" / f"{bad_row}.0.0")
    delivered: list[Any] = []
    with loader_of(kind, store) as loader, pytest.raises(DecodeError, match=f"{bad_row}.0.0"):
        drain(iter(loader), delivered)
    assert len(delivered) == max(0, bad_row - 1)


@pytest.mark.parametrize("kind", LOADERS)
def test_chunks_under_the_other_separator_are_refused_by_name(
    tmp_path: Path, kind: type[Any]
) -> None:
    """A store whose chunk files have another key form is not a store full of fill values."""
    store = make(tmp_path / "store", "none")
    for chunk in list((store.data / "zos").glob("*.0.0")):
        row = chunk.name.split(".")[0]
        nested = store.data / "zos" / row / "0" / "0"
        nested.parent.mkdir(parents=True)
        chunk.rename(nested)
    with loader_of(kind, store) as loader, pytest.raises((StoreError, ValueError)) as raised:
        next(iter(loader))
    assert "zos" in str(raised.value)
    assert "0/0/0" in str(raised.value) or "separator" in str(raised.value)


@pytest.mark.parametrize("kind", LOADERS)
def test_a_store_that_vanishes_is_an_error_with_its_path(tmp_path: Path, kind: type[Any]) -> None:
    store = make(tmp_path / "store", "none")
    with loader_of(kind, store) as loader:
        shutil.rmtree(store.data)
        with pytest.raises(StoreError, match=str(store.data)):
            list(loader)
