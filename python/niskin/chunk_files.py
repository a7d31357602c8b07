"""The chunk files of one array of a local Zarr store: which are absent, and which are damaged.

Absent means that the store has no such key (ENOENT) and nothing else: any other failure to look is
a StoreError, and a file of a length that cannot be right is a DecodeError. zarr-python reads an
absent chunk as the fill value, so a reader that must tell the two apart asks here first.
"""

from __future__ import annotations

import errno
import math
import os
import re
import stat
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from niskin.errors import DecodeError, FormatError, StoreError, address

__all__ = ["ChunkFiles"]

# Bytes 12..15 of a blosc header hold the length of the whole encoded chunk, little-endian.
_BLOSC_HEADER_BYTES = 16


@dataclass(frozen=True, kw_only=True, eq=False)
class ChunkFiles:
    """The files of an array, addressed by chunk coordinates. Holds no handle."""

    store: str
    array: str
    separator: str
    key: Callable[[tuple[int, ...]], str]
    shape: tuple[int, ...]
    chunks: tuple[int, ...]
    dtype: np.dtype[Any]
    codec: str | None  # the compressor's id; None: stored as it is

    @cached_property
    def chunk_bytes(self) -> int:
        """Bytes of a decoded chunk; chunks at the edge are as long as the others."""
        return math.prod(self.chunks) * self.dtype.itemsize

    @cached_property
    def grid(self) -> tuple[int, ...]:
        """How many chunks the array has along each dimension."""
        return tuple(-(-n // c) for n, c in zip(self.shape, self.chunks, strict=True))

    def every(self) -> Iterator[tuple[int, ...]]:
        """All chunk coordinates, in C order."""
        return product(*(range(n) for n in self.grid))

    def absent(self, wanted: Iterable[tuple[int, ...]]) -> list[tuple[int, ...]]:
        """The chunks of `wanted` that the store does not have.

        Raises DecodeError for a file whose length cannot be right, StoreError for one that cannot
        be looked at, and FormatError where none of the absent chunks is there because the files
        lie under the other separator.
        """
        absent = [chunk for chunk in wanted if not self._is_there(chunk)]
        if absent:
            self._refuse_other_key_form()
        return absent

    def read(self, chunk: tuple[int, ...]) -> bytes | None:
        """An encoded chunk, of a length that may be right; None where absent. Raises as `absent`
        does.
        """
        size, encoded = self._open(chunk, -1)
        if size is None:
            self._refuse_other_key_form()
            return None
        self._check_length(chunk, len(encoded), encoded)
        return encoded

    def _is_there(self, chunk: tuple[int, ...]) -> bool:
        size, header = self._open(chunk, _BLOSC_HEADER_BYTES if self.codec == "blosc" else 0)
        if size is not None:
            self._check_length(chunk, size, header)
        return size is not None

    def _open(self, chunk: tuple[int, ...], wanted: int) -> tuple[int | None, bytes]:
        """The length of a file, None where absent, and its first `wanted` bytes (-1: all)."""
        path, found = Path(f"{self.store}/{self.array}/{self.key(chunk)}"), b""
        try:
            status = path.stat()
            regular = stat.S_ISREG(status.st_mode)
            if wanted and regular:
                with path.open("rb", buffering=0) as file:
                    found = file.read(wanted)
        except OSError as error:
            if error.errno == errno.ENOENT and not path.is_symlink():
                return None, b""
            raise self._unreadable(chunk, error.strerror or str(error)) from error
        if not regular:
            raise self._unreadable(chunk, "not a regular file")
        return status.st_size, found

    def _check_length(self, chunk: tuple[int, ...], size: int, header: bytes) -> None:
        if self.codec is None and size != self.chunk_bytes:
            shape = "x".join(map(str, self.chunks))
            raise self._damaged(chunk, size, f"{self.chunk_bytes} ({self.dtype}, {shape})")
        if size == 0:
            raise self._damaged(chunk, size, "an encoded chunk")
        if self.codec != "blosc":
            return
        if len(header) < _BLOSC_HEADER_BYTES:
            raise self._damaged(chunk, size, f"at least {_BLOSC_HEADER_BYTES} (blosc)")
        (decoded,) = struct.unpack_from("<I", header, 4)
        (encoded,) = struct.unpack_from("<I", header, 12)
        if encoded != size:
            raise self._damaged(chunk, size, f"{encoded} (blosc)")
        if decoded != self.chunk_bytes:
            raise DecodeError(
                address(
                    f"{self.array}: chunk {self.key(chunk)}: blosc holds {decoded} bytes, "
                    f"expected {self.chunk_bytes}",
                    store=self.store,
                )
            )

    def _damaged(self, chunk: tuple[int, ...], size: int, expected: str) -> DecodeError:
        return DecodeError(
            address(
                f"{self.array}: chunk {self.key(chunk)}: got {size} bytes, expected {expected}",
                store=self.store,
                hint="the file was cut or overwritten; copy it again",
            )
        )

    def _unreadable(self, chunk: tuple[int, ...], why: str) -> StoreError:
        return StoreError(
            address(
                f"{self.array}: chunk {self.key(chunk)}: cannot be read: {why}", store=self.store
            )
        )

    def _refuse_other_key_form(self) -> None:
        """A store whose metadata lost its separator would read as nothing but fill."""
        rank = len(self.shape)
        if rank < 2:
            return
        other = "." if self.separator == "/" else "/"
        dotted = re.compile(rf"\d+(\.\d+){{{rank - 1}}}")
        try:
            with os.scandir(Path(self.store, self.array)) as entries:
                names = {entry.name: entry.is_dir() for entry in entries}
        except FileNotFoundError:
            return
        flat = any(dotted.fullmatch(name) and not folder for name, folder in names.items())
        nested = any(name.isdigit() and folder for name, folder in names.items())
        declared, found = (flat, nested) if self.separator == "." else (nested, flat)
        if found and not declared:
            example = other.join(["0"] * rank)
            raise FormatError(
                address(
                    f"{self.array}: chunk keys: got files such as {example}, "
                    f"expected {self.separator.join(['0'] * rank)} by its metadata",
                    store=self.store,
                    hint=f'set "dimension_separator": "{other}" in its metadata',
                )
            )
