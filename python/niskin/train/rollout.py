"""Rolling an emulator forward over the steps of a batch, and the loss of what it says."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

if TYPE_CHECKING:
    from niskin.batch import Batch, Step

__all__ = ["Emulator", "channel_errors", "masked_loss", "roll_out", "usual_change"]

# (prognostic, boundary, mask) -> the next states; the shapes are those of `OceanNet.forward`.
Emulator = Callable[[Tensor, Tensor, Tensor], Tensor]


def roll_out(emulator: Emulator, steps: Iterable[Step], mask: Tensor) -> Iterator[Tensor]:
    """Yields the emulator's states for each step, (B, (h+1)*C, lat, lon).

    Only the first step's prognostic input is used; later steps are fed the emulator's own output
    and that step's boundary.
    """
    state: Tensor | None = None
    for step in steps:
        state = emulator(step.prognostic if state is None else state, step.boundary, mask)
        yield state


def channel_errors(prediction: Tensor, label: Tensor, mask: Tensor) -> Tensor:
    """Mean square error over batch and wet cells of each channel: (channels,), 0 where all is dry.

    Args:
        prediction, label: (B, channels, lat, lon), finite on land too, as loaders deliver it.
        mask: bool (channels, lat, lon), True is wet.
    """
    # Summed over the batch before the mask: fewer passes over memory than masking each sample.
    square = F.mse_loss(prediction, label, reduction="none").sum(dim=0)
    return (square * mask).sum(dim=(1, 2)) / (mask.sum(dim=(1, 2)).clamp(min=1) * len(prediction))


def masked_loss(emulator: Emulator, batch: Batch, change: Tensor | None = None) -> Tensor:
    """The mean over steps and channels of `channel_errors`, a scalar; channels that are dry
    everywhere do not count.

    With `change` ((h+1)*C, 1, 1), errors are in units of each channel's usual change, so that slow
    channels count as much as quick ones: of one step, persistence has a loss of about 1.
    """
    mask = batch.context.label_mask
    steps = list(batch)
    per_step = [
        channel_errors(state, step.label, mask)
        for state, step in zip(roll_out(emulator, steps, mask), steps, strict=True)
    ]
    errors = torch.stack(per_step).mean(dim=0)
    if change is not None:
        errors = errors / change.flatten().square()
    loss: Tensor = errors.sum() / mask.any(dim=(1, 2)).sum()
    return loss


def usual_change(batches: Iterable[Batch], channels: int) -> Tensor:
    """How far labels of the first step lie from the last input state: root mean squares.

    `channels` is the number of prognostic channels C; the result is ((h+1)*C,), with 1 for channels
    that do not change. Labels must be on the grid of the inputs.
    """
    squares: list[Tensor] = []
    for batch in batches:
        step = batch[0]
        last = step.prognostic[:, -channels:]
        rows = step.label.shape[1] // channels
        squares.append(
            channel_errors(last.repeat(1, rows, 1, 1), step.label, batch.context.label_mask)
        )
    mean = torch.stack(squares).mean(dim=0)
    return torch.where(mean > 0, mean.sqrt(), 1.0)
