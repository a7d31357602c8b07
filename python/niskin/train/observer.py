"""Who is told how a run goes: a progress bar, a table, or nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .trainer import EpochMetrics

__all__ = ["TrainingObserver"]


class TrainingObserver:
    """Does nothing; override what you want to see. Called from the training thread."""

    def epoch_began(self, epoch: int, steps: int, batches: int) -> None:
        """An epoch (1-based) of `batches` training batches with `steps` rollout steps begins."""

    def batch_trained(self) -> None:
        """One more training batch is done."""

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """Training and validation of an epoch are done."""
