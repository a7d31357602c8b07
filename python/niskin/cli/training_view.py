"""A training run on the terminal: a progress bar while it runs, a table of its epochs after."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from niskin.train import TrainingObserver
from niskin.train.trainer import EpochMetrics

__all__ = ["TrainingBar", "epoch_table"]


class TrainingBar(TrainingObserver):
    """A bar per epoch on `console`; silent where that is no terminal. Use with `with`."""

    def __init__(self, console: Console) -> None:
        self._progress = Progress(
            TextColumn("[progress.description]{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._progress.add_task("training", total=None, note="", visible=False)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def epoch_began(self, epoch: int, steps: int, batches: int) -> None:
        """Starts the bar of an epoch."""
        rollout = f"{steps} step" + ("s" if steps > 1 else "")
        self._progress.reset(
            self._task, total=batches, description=f"epoch {epoch} ({rollout})", visible=True
        )

    def batch_trained(self) -> None:
        """Moves the bar on."""
        self._progress.advance(self._task)

    def epoch_ended(self, metrics: EpochMetrics) -> None:
        """Shows the losses of the epoch beside the bar of the next."""
        self._progress.update(
            self._task,
            note=f"loss {metrics.train.loss:.4f}, validation {metrics.validation.loss:.4f}",
        )


def epoch_table(epochs: Sequence[EpochMetrics]) -> Table:
    """One row per epoch: losses, throughput of training and its share of time waiting for data."""
    table = Table(
        title="Training",
        title_justify="left",
        caption="GB/s: bytes delivered\nwaiting: share of the time spent waiting for data",
        caption_justify="left",
    )
    for heading in ("epoch", "steps", "loss", "validation", "samples/s", "GB/s", "waiting"):
        table.add_column(heading, justify="right")
    for metrics in epochs:
        table.add_row(
            str(metrics.epoch),
            str(metrics.steps),
            f"{metrics.train.loss:.4f}",
            f"{metrics.validation.loss:.4f}",
            f"{metrics.train.samples_per_s:.1f}",
            f"{metrics.train.delivered_gb_per_s:.2f}",
            f"{metrics.train.wait_share:.1%}",
        )
    return table
