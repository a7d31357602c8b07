"""The trainer: rollouts, masked loss, validation, and loaders that are closed whatever happens."""

from __future__ import annotations

import json
import math
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path

import torch

from niskin.config import TrainConfig
from niskin.errors import UsageError, address
from niskin.loading import Loader

from .checkpoint import save_checkpoint
from .data import (
    MakeLoader,
    RunData,
    inference_loader,
    make_loader,
    training_loader,
    validation_loader,
)
from .inference import InferenceScore, free_run
from .metrics import EpochMeter, PhaseMetrics
from .model import OceanNet
from .observer import TrainingObserver
from .rollout import masked_loss, usual_change

__all__ = ["EpochMetrics", "Trainer", "TrainingResult", "choose_device"]


_CALIBRATION_BATCHES = 8


@dataclass(frozen=True, kw_only=True)
class EpochMetrics:
    """One epoch (1-based): rollout steps of its training, and what both phases gave."""

    epoch: int
    steps: int
    train: PhaseMetrics
    validation: PhaseMetrics

    def as_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "epoch": self.epoch,
            "steps": self.steps,
            "train": self.train.as_dict(),
            "validation": self.validation.as_dict(),
        }


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """A finished run. `losses` holds the training loss of every batch, in order."""

    epochs: tuple[EpochMetrics, ...]
    losses: tuple[float, ...]
    checkpoint: Path
    inference: InferenceScore | None

    def as_dict(self) -> dict[str, object]:
        """Plain values, ready for JSON."""
        return {
            "epochs": [epoch.as_dict() for epoch in self.epochs],
            "checkpoint": str(self.checkpoint),
            "inference": None if self.inference is None else asdict(self.inference),
        }


def choose_device(name: str) -> torch.device:
    """The device of a configuration; "auto" is the first GPU where there is one.

    Raises UsageError if a GPU is asked for and there is none.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    device = torch.device(name)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UsageError(address(f"device: {name}: this PyTorch sees no GPU", hint="device: auto"))
    return device


class Trainer:
    """Trains an `OceanNet` as a configuration says. Use once: `Trainer(config).run()`.

    Each epoch (1-based) calls `set_epoch`, trains, validates with one rollout step, appends a line
    to `metrics.jsonl` and writes a checkpoint, both in `config.output_dir`. `model` is there from
    the start; after `run` it holds the trained weights.
    """

    def __init__(
        self,
        config: TrainConfig,
        *,
        data: RunData | None = None,
        make: MakeLoader = make_loader,
        observer: TrainingObserver | None = None,
    ) -> None:
        """Opens the data (unless given) and builds the model; no loader exists before `run`."""
        self.config = config
        self.device = choose_device(config.device)
        self.data = RunData.open(config) if data is None else data
        self._make = make
        self._observer = observer or TrainingObserver()
        source = self.data.train[0]
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(config.experiment.rand_seed)
            self.model = OceanNet(
                prognostic=len(source.prognostic),
                boundary=len(source.boundary),
                hist=config.data.hist,
                widths=config.model.widths,
                patch=config.model.patch,
            )
        self.model.to(self.device)
        self._optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=config.learning_rate, weight_decay=config.weight_decay
        )
        self._losses: list[float] = []

    def run(self) -> TrainingResult:
        """Trains for all epochs, then rolls out over the inference dates, if any.

        Every loader it made is closed when it returns or raises. Raises what the loaders raise, and
        UsageError when the loss is no longer finite.
        """
        config, device = self.config, str(self.device)
        epochs: list[EpochMetrics] = []
        checkpoint = config.output_dir
        with ExitStack() as closing:
            validation = validation_loader(config, self.data, device=device, make=self._make)
            closing.callback(validation.close)
            train: Loader | None = None
            for epoch in range(1, config.epochs + 1):
                steps = config.steps_in(epoch)
                if train is None or steps != epochs[-1].steps:
                    if train is not None:
                        train.close()
                    train = training_loader(
                        config, self.data, steps=steps, device=device, make=self._make
                    )
                    closing.callback(train.close)
                    self._check_batches(train, steps)
                if epoch == 1:
                    self._calibrate(train)
                metrics = self._epoch(epoch, steps, train, validation)
                epochs.append(metrics)
                checkpoint = self._record(metrics)
            score = self._infer(closing)
        return TrainingResult(
            epochs=tuple(epochs),
            losses=tuple(self._losses),
            checkpoint=checkpoint,
            inference=score,
        )

    def _epoch(self, epoch: int, steps: int, train: Loader, validation: Loader) -> EpochMetrics:
        train.set_epoch(epoch)
        validation.set_epoch(epoch)
        self._observer.epoch_began(epoch, steps, _count(train, self.config.batch_limit))
        metrics = EpochMetrics(
            epoch=epoch,
            steps=steps,
            train=self._train(epoch, train),
            validation=self.validate(validation),
        )
        self._observer.epoch_ended(metrics)
        return metrics

    def _check_batches(self, train: Loader, steps: int) -> None:
        if len(train) == 0:
            raise UsageError(
                address(
                    f"training: no batch in an epoch of {steps}-step rollouts: the training range "
                    f"has fewer samples than batch_size {self.config.batch_size}",
                    hint="a longer train_time, fewer steps or a smaller batch_size",
                )
            )

    def _calibrate(self, train: Loader) -> None:
        """Tells the model how much each channel usually changes, from the first batches."""
        train.set_epoch(1)
        change = usual_change(islice(train, _CALIBRATION_BATCHES), self.model.prognostic)
        self.model.set_change(change)

    def _train(self, epoch: int, loader: Loader) -> PhaseMetrics:
        self.model.train()
        limit = self.config.batch_limit
        batches = _count(loader, limit)
        meter = EpochMeter()
        losses: list[torch.Tensor] = []
        for number, batch in enumerate(meter.watch(loader, limit)):
            self._set_learning_rate(epoch - 1 + number / batches)
            self._optimizer.zero_grad(set_to_none=True)
            loss = masked_loss(self.model, batch, self.model.change)
            loss.backward()  # type: ignore[no-untyped-call]
            if self.config.clip_grad_norm is not None:
                torch.nn.utils.clip_grad_norm_(self.model.parameters(), self.config.clip_grad_norm)
            self._optimizer.step()
            losses.append(loss.detach())
            self._observer.batch_trained()
        # Read back once per epoch: a read per batch would make a GPU wait for each.
        values: list[float] = torch.stack(losses).tolist()
        metrics = meter.result(sum(values) / len(values))
        if not math.isfinite(metrics.loss):
            bad = next(i for i, value in enumerate(values) if not math.isfinite(value))
            raise UsageError(
                address(
                    f"training: epoch {epoch}: the loss of batch {bad} is {values[bad]}",
                    hint="a smaller learning_rate, or data with bad_values: error",
                )
            )
        self._losses += values
        return metrics

    @torch.inference_mode()
    def validate(self, loader: Loader) -> PhaseMetrics:
        """The loss over a loader, without training."""
        self.model.eval()
        meter = EpochMeter()
        losses = [
            (masked_loss(self.model, batch, self.model.change), len(batch.indices))
            for batch in meter.watch(loader, self.config.batch_limit)
        ]
        samples = sum(count for _, count in losses)
        total = sum(float(loss) * count for loss, count in losses)
        return meter.result(total / samples if samples else math.nan)

    def _set_learning_rate(self, epochs_done: float) -> None:
        """Follows half a cosine from `learning_rate` down to zero at the end of the run."""
        progress = epochs_done / self.config.epochs
        rate = self.config.learning_rate * 0.5 * (1.0 + math.cos(math.pi * progress))
        for group in self._optimizer.param_groups:
            group["lr"] = rate

    def _record(self, metrics: EpochMetrics) -> Path:
        directory = self.config.output_dir
        source = self.data.train[0]
        path = save_checkpoint(
            directory,
            epoch=metrics.epoch,
            model=self.model,
            details={
                "config": self.config.model_dump(mode="json"),
                "prognostic": list(source.prognostic),
                "boundary": list(source.boundary),
            },
        )
        mode = "w" if metrics.epoch == 1 else "a"
        with (directory / "metrics.jsonl").open(mode, encoding="utf-8") as file:
            file.write(json.dumps(metrics.as_dict()) + "\n")
        return path

    def _infer(self, closing: ExitStack) -> InferenceScore | None:
        loader = inference_loader(self.config, self.data, device=str(self.device), make=self._make)
        if loader is None:
            return None
        closing.callback(loader.close)
        self.model.eval()
        return free_run(self.model, loader, channels=self.model.prognostic)


def _count(loader: Loader, limit: int | None) -> int:
    return len(loader) if limit is None else min(limit, len(loader))
