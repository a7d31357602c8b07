"""Arrays that are one chunk file each, decoded without zarr-python's event loop.

Statistics are a hundred such arrays. A turn of the loop for each takes longer, together,
than all else that opening does.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from zarr.core.metadata import ArrayV2Metadata

__all__ = ["one_chunk"]


def one_chunk(form: ArrayV2Metadata) -> Callable[[bytes], NDArray[Any]] | None:
    """A function that decodes the only chunk of an array; None for an array of another form.

    It returns stored values in the stored byte order, as zarr-python would, and raises ValueError,
    or what the codec raises, for damage.
    """
    shape, chunk = form.shape, form.chunks
    if form.filters or not all(0 < n <= size for n, size in zip(shape, chunk, strict=True)):
        return None
    dtype = np.dtype(form.dtype.to_native_dtype())
    if dtype.kind not in "biuf":
        return None
    codec: Any = form.compressor

    def decode(encoded: bytes) -> NDArray[Any]:
        values = np.frombuffer(encoded if codec is None else codec.decode(encoded), dtype=dtype)
        if values.size != math.prod(chunk):
            raise ValueError(f"decoded {values.size} values, expected {math.prod(chunk)}")
        block = values.reshape(chunk, order=form.order)
        return block[tuple(slice(n) for n in shape)]

    return decode
