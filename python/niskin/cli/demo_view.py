"""The demo on the terminal: what it is doing, then what it found."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Console, RenderableType
from rich.table import Table

from niskin.demo import DemoResult, DemoView

from .training_view import TrainingBar, epoch_table

__all__ = ["DemoBar", "demo_tables"]


class DemoBar(TrainingBar, DemoView):
    """Names each stage, and shows a bar while training."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._console = console

    def stage(self, what: str) -> None:
        """Names the stage that begins."""
        self._progress.update(self._task, visible=False)
        self._console.print(f"{what} …", style="dim")

    def planes_written(self, done: int, total: int) -> None:
        """Shows how far the sample store is."""
        self._progress.update(
            self._task, description="planes", completed=done, total=total, visible=done < total
        )


def demo_tables(result: DemoResult) -> Iterator[RenderableType]:
    """What to print of a result, in order."""
    yield epoch_table(result.trained.epochs)
    yield _loaders(result)
    yield _equality(result)
    yield _scores(result)


def _loaders(result: DemoResult) -> Table:
    table = Table(title="Loading the same batches", title_justify="left")
    table.add_column("")
    for heading in ("native (C++)", "xarray, no workers", "ratio"):
        table.add_column(heading, justify="right")
    native, cpu = result.loading.native, result.loading.cpu
    speedup = f"{result.loading.speedup:.1f} ×"
    table.add_row("samples/s", f"{native.samples_per_s:.1f}", f"{cpu.samples_per_s:.1f}", speedup)
    table.add_row(
        "GB/s delivered",
        f"{native.delivered_gb_per_s:.2f}",
        f"{cpu.delivered_gb_per_s:.2f}",
        speedup,
    )
    native, cpu = result.training.native, result.training.cpu
    table.add_row(
        "samples/s while training",
        f"{native.samples_per_s:.1f}",
        f"{cpu.samples_per_s:.1f}",
        f"{result.training.speedup:.1f} ×",
    )
    table.add_row(
        "time spent waiting for data", f"{native.wait_share:.1%}", f"{cpu.wait_share:.1%}", ""
    )
    return table


def _equality(result: DemoResult) -> str:
    found = result.equality
    if found.difference is not None:
        return f"[bold red]the loaders differ: {found.difference}[/]"
    return (
        f"{found.batches} batches of both loaders compared: all {found.values:,} values in "
        f"{found.tensors} tensors are equal bit for bit"
    )


def _scores(result: DemoResult) -> Table:
    forecasts = result.forecasts
    title = f"RMSE of SST on the held-out year (°C), {forecasts.starts} forecasts"
    table = Table(title=title, title_justify="left")
    table.add_column("days ahead")
    for days in forecasts.lead_days:
        table.add_column(f"{days:.0f}", justify="right")
    table.add_column("all", justify="right")
    best = min(forecasts.rmse, key=forecasts.mean_rmse)
    for name, values in forecasts.rmse.items():
        label = {"model": "emulator"}.get(name, name)
        table.add_row(
            label,
            *(f"{value:.2f}" for value in values),
            f"{forecasts.mean_rmse(name):.2f}",
            style="bold green" if name == best else None,
        )
    return table
