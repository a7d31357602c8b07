"""Arrays that are one chunk file each, read and decoded without zarr-python.

Statistics are a hundred such arrays. zarr-python takes a turn of its event loop for each, which
together is longer than it takes to open the store.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["one_chunk"]


def one_chunk(store: str, array: str, meta: Any) -> Callable[[], NDArray[Any]] | None:
    """A function that reads a format 2 array from its only chunk file; None if it has others.

    `meta` is zarr-python's metadata of the array. The function returns stored values in the stored
    byte order, as zarr-python would; it raises OSError where the file cannot be read and
    ValueError, or what the codec raises, where it cannot be decoded.
    """
    shape, chunk = tuple(meta.shape), tuple(meta.chunks)
    dtype = np.dtype(meta.dtype.to_native_dtype())
    one = all(0 < extent <= size for extent, size in zip(shape, chunk, strict=True))
    if not one or meta.filters or dtype.kind not in "biuf":
        return None
    path = Path(store, array, meta.encode_chunk_key((0,) * len(shape)))

    def read() -> NDArray[Any]:
        encoded = path.read_bytes()
        decoded = encoded if meta.compressor is None else meta.compressor.decode(encoded)
        values = np.frombuffer(decoded, dtype=dtype)
        if values.size != math.prod(chunk):
            raise ValueError(f"decoded {values.size} values, expected {math.prod(chunk)}")
        block = values.reshape(chunk, order=meta.order)
        return block[tuple(slice(extent) for extent in shape)]

    return read
