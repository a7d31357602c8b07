"""The numbers a model should see, by their definition, from what the writer of a tiny store knows.

Independent of the package: rows by the window formula, float32 arithmetic by NumPy.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from niskin.shard import TrainingShard
from stores import TinyStore


def prepare(
    x: NDArray[np.float32],
    wet: NDArray[np.bool_],
    mean: np.float32,
    std: np.float32,
    *,
    fill: float,
    normalize_first: bool,
) -> NDArray[np.float32]:
    """One plane: normalize, replace NaN and infinities, mask; or mask first."""
    dry = np.float32(fill)
    if not normalize_first:
        x = np.where(wet, x, dry)
    with np.errstate(all="ignore"):
        y = np.nan_to_num((x - mean) / std)
    assert y.dtype == np.float32
    return np.where(wet, y, dry) if normalize_first else y


def prepared(
    store: TinyStore, rows: Sequence[int], channels: Sequence[str], shard: TrainingShard
) -> NDArray[np.float32]:
    """Planes of store rows, time-major: (row * channel, ny, nx)."""
    return np.stack(
        [
            prepare(
                store.truth[channel][row], store.masks[channel],
                store.mean[channel], store.std[channel],
                fill=shard.masked_fill_value, normalize_first=shard.normalize_before_mask,
            )
            for row in rows
            for channel in channels
        ]
    )  # fmt: skip


def expected_steps(
    store: TinyStore, shard: TrainingShard, indices: Sequence[int], *, first_row: int = 0
) -> list[tuple[NDArray[np.float32], ...]]:
    """Input, boundary and label (B, (h+1)*C, ny, nx) of each step of a batch.

    For a shard without `max_gap` or labels of another source, over rows from `first_row` on.
    """
    width, stride = shard.hist + 1, shard.stride
    steps = []
    for step in range(shard.steps):
        begins = [first_row + i + step * width * stride for i in indices]
        inputs = [[b + stride * k for k in range(width)] for b in begins]
        labels = [[b + stride * k for k in range(width, 2 * width)] for b in begins]
        uses = (
            (inputs, shard.prognostic), (inputs, shard.boundary), (labels, shard.prognostic)
        )  # fmt: skip
        steps.append(
            tuple(
                np.stack([prepared(store, r, names, shard) for r in rows]) for rows, names in uses
            )
        )
    return steps
