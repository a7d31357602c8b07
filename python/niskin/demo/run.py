"""Runs the demo from the store to the picture."""

from __future__ import annotations

import json
import os
import time
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from itertools import groupby
from pathlib import Path

import torch

from niskin.config import TrainConfig
from niskin.loading import Loader
from niskin.sampling import BatchSampler
from niskin.shard import TrainingShard
from niskin.train import Trainer, TrainingObserver, TrainingResult
from niskin.train.data import RunData, make_loader

from .comparison import Equality, SideBySide, compare_bits, race, training_step
from .forecast import Forecasts, SeasonalCycle, forecast
from .picture import LossCurve, draw
from .settings import SST, DemoSettings
from .store import ensure_store

__all__ = ["DemoResult", "DemoView", "run_demo"]

_FORECAST_BATCH = 4


class DemoView(TrainingObserver):
    """Is told what the demo does; does nothing itself."""

    def stage(self, what: str) -> None:
        """The demo begins something that takes a while."""

    def planes_written(self, done: int, total: int) -> None:
        """So much of the sample store is written."""


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """All that the demo found out. Times are wall-clock seconds."""

    equality: Equality
    loading: SideBySide  # nothing done with the batches
    training: SideBySide  # a training step for each batch
    trained: TrainingResult
    forecasts: Forecasts
    picture: Path
    total_s: float

    @property
    def passed(self) -> bool:
        """True if the loaders agree and the emulator beats its rivals."""
        return self.equality.difference is None and self.forecasts.beaten

    def as_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        sides = {"loading": self.loading, "training": self.training}
        return {
            "passed": self.passed,
            "equality": asdict(self.equality),
            **{
                name: {
                    "native": side.native.as_dict(),
                    "cpu": side.cpu.as_dict(),
                    "speedup": side.speedup,
                }
                for name, side in sides.items()
            },
            "trained": self.trained.as_dict(),
            "forecast": {
                "starts": self.forecasts.starts,
                "lead_days": self.forecasts.lead_days,
                "rmse_celsius": self.forecasts.rmse,
                "beaten": self.forecasts.beaten,
            },
            "picture": str(self.picture),
            "total_s": self.total_s,
        }


def run_demo(out: Path, settings: DemoSettings, view: DemoView | None = None) -> DemoResult:
    """Builds or reuses `out`/store, compares the loaders, trains, forecasts and draws.

    Leaves `out`/demo.png, `out`/demo.json and the checkpoints in `out`/run. Raises what the loaders
    and the trainer raise; that the loaders differ, or that a rival wins, is in the result.
    """
    view = view or DemoView()
    began = time.perf_counter()
    with _all_cores(), warnings.catch_warnings():
        # The store's leap years have one step of six days, and windows may span it.
        warnings.filterwarnings("ignore", message=r"time: got 1 of \d+ steps")
        view.stage("building the sample store")
        store = out / "store"
        ensure_store(store, settings, view.planes_written)
        config = settings.config(store, out)
        data = RunData.open(config)
        trainer = Trainer(config, data=data, observer=view)
        view.stage("comparing the loaders")
        equality, loading, training = _compare(config, data, trainer, settings)
        view.stage("training")
        trained = trainer.run()
        view.stage("forecasting the held-out year")
        forecasts = _forecast(config, data, trainer, settings)
    view.stage("drawing")
    picture = out / "demo.png"
    title = (
        f"Sea surface temperature by an emulator trained through Niskin "
        f"({settings.resolution.replace('deg', '°')} sample store, "
        f"{settings.years - 1} years of training)"
    )
    source = data.validation
    draw(picture, forecasts, _curves(trained), lat=source.lat, lon=source.lon, title=title)
    result = DemoResult(
        equality=equality,
        loading=loading,
        training=training,
        trained=trained,
        forecasts=forecasts,
        picture=picture,
        total_s=time.perf_counter() - began,
    )
    (out / "demo.json").write_text(json.dumps(result.as_dict(), indent=2) + "\n", encoding="utf-8")
    return result


@contextmanager
def _all_cores() -> Iterator[None]:
    """Lets torch use the cores that this process may run on, not all that the machine has."""
    before = torch.get_num_threads()
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _compare(
    config: TrainConfig, data: RunData, trainer: Trainer, settings: DemoSettings
) -> tuple[Equality, SideBySide, SideBySide]:
    shards = data.train_shards(config, steps=settings.steps[-1])
    sampler = BatchSampler(shards, batch_size=settings.batch_size, seed=settings.seed)
    schedule = sampler.schedule(epoch=1)
    with ExitStack() as closing:
        native, cpu = _pair(closing, shards, schedule[: settings.compared_batches])
        equality = compare_bits(native, cpu)
        loading = race(native, cpu, rounds=settings.timed_rounds)
    with ExitStack() as closing:
        native, cpu = _pair(closing, shards, schedule[: settings.trained_batches])
        training = race(native, cpu, rounds=1, work=training_step(trainer.model))
    return equality, loading, training


def _pair(
    closing: ExitStack, shards: Sequence[TrainingShard], schedule: list[list[int]]
) -> tuple[Loader, Loader]:
    native = make_loader("native", shards, schedule)
    closing.callback(native.close)
    cpu = make_loader("cpu", shards, schedule, num_workers=0)
    closing.callback(cpu.close)
    return native, cpu


def _forecast(
    config: TrainConfig, data: RunData, trainer: Trainer, settings: DemoSettings
) -> Forecasts:
    (shard,) = data.validation_shards(config)
    shard = shard.with_steps(settings.forecast_steps)
    starts = list(range(0, len(shard), settings.forecast_every))
    schedule = [starts[i : i + _FORECAST_BATCH] for i in range(0, len(starts), _FORECAST_BATCH)]
    loader = make_loader("native", [shard], schedule, device=str(trainer.device))
    with ExitStack() as closing:
        closing.callback(loader.close)
        season = SeasonalCycle(data.train[0], SST)
        return forecast(
            trainer.model, loader, data.validation, season, channel=SST, show=len(starts) // 2
        )


def _curves(trained: TrainingResult) -> list[LossCurve]:
    """The losses, cut where the rollouts grow."""
    curves = []
    done = 0
    for steps, group in groupby(trained.epochs, key=lambda epoch: epoch.steps):
        first, validation = done, []
        for epoch in group:
            done += epoch.train.batches
            validation.append((done, epoch.validation.loss))
        curves.append(
            LossCurve(
                steps=steps,
                first_batch=first + 1,
                training=trained.losses[first:done],
                validation=validation,
            )
        )
    return curves
