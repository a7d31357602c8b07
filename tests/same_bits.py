"""What "the same batch" means in the parity tests: every bit of every tensor, dates and context."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from niskin.batch import Batch


def bits(tensor: Any) -> NDArray[np.uint32]:
    """The bit patterns of a float32 tensor or array: NaN equals itself, 0.0 differs from -0.0."""
    array = np.asarray(tensor)
    assert array.dtype == np.float32
    return array.view(np.uint32)


def assert_same_batches(ours: Sequence[Batch], theirs: Sequence[Batch]) -> None:
    """Compares two passes batch by batch; torch tensors and NumPy arrays may be mixed."""
    assert len(ours) == len(theirs)
    for our, their in zip(ours, theirs, strict=True):
        assert our.indices.tolist() == their.indices.tolist()
        assert our.times.tolist() == their.times.tolist()
        assert our.valid.tolist() == their.valid.tolist()
        assert [plan.layout for plan in our.plans] == [plan.layout for plan in their.plans]
        _assert_same_context(our, their)
        for number, (our_step, their_step) in enumerate(zip(our, their, strict=True)):
            for name, a, b in zip(our_step._fields, our_step, their_step, strict=True):
                assert tuple(a.shape) == tuple(b.shape)
                assert _strides(a) == _strides(b)
                differ = np.argwhere(bits(a) != bits(b))
                if differ.size:
                    at = tuple(differ[0].tolist())
                    raise AssertionError(
                        f"batch {our.indices.tolist()} step {number} {name}: {len(differ)} of "
                        f"{bits(a).size} values differ, first at {at}: {a[at]!r} and {b[at]!r}"
                    )


def _assert_same_context(our: Batch, their: Batch) -> None:
    a, b = our.context, their.context
    assert np.array_equal(np.asarray(a.label_mask), np.asarray(b.label_mask))
    for ours, theirs in ((a.input_coords, b.input_coords), (a.output_coords, b.output_coords)):
        for x, y in zip(ours, theirs, strict=True):
            assert np.asarray(x).dtype == np.asarray(y).dtype == np.float64
            assert np.array_equal(np.asarray(x), np.asarray(y))


def _strides(tensor: Any) -> tuple[int, ...]:
    if isinstance(tensor, np.ndarray):
        return tuple(stride // tensor.itemsize for stride in tensor.strides)
    return tuple(tensor.stride())
