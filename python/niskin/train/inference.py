"""One long free-running rollout over a range of dates, scored against persistence."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from niskin.loading import Loader

from .rollout import Emulator, channel_errors

__all__ = ["InferenceScore", "free_run"]


@dataclass(frozen=True, kw_only=True)
class InferenceScore:
    """Root mean square errors in normalized units, mean over channels; one value per step."""

    model: tuple[float, ...]
    persistence: tuple[float, ...]


def free_run(emulator: Emulator, loader: Loader, *, channels: int) -> InferenceScore:
    """Rolls the emulator over all batches of an inference loader, each one a step.

    The first batch's prognostic input starts the run; persistence keeps its last state. `channels`
    is the number of prognostic channels.
    """
    state: Tensor | None = None
    first: Tensor | None = None
    model: list[float] = []
    persistence: list[float] = []
    with torch.inference_mode():
        for batch in loader:
            mask = batch.context.label_mask
            (step,) = batch
            if state is None or first is None:
                rows = step.prognostic.shape[1] // channels
                state, first = step.prognostic, step.prognostic[:, -channels:].repeat(1, rows, 1, 1)
            state = emulator(state, step.boundary, mask)
            model.append(_rms(state, step.label, mask))
            persistence.append(_rms(first, step.label, mask))
    return InferenceScore(model=tuple(model), persistence=tuple(persistence))


def _rms(prediction: Tensor, label: Tensor, mask: Tensor) -> float:
    wet = mask.any(dim=(1, 2))
    return float(channel_errors(prediction, label, mask)[wet].mean().sqrt())
