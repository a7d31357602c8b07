"""The two loaders side by side: first that they deliver the same bits, then how fast."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np
import torch

from niskin.batch import Batch
from niskin.loading import Loader
from niskin.train.metrics import EpochMeter, PhaseMetrics
from niskin.train.model import OceanNet
from niskin.train.rollout import masked_loss

__all__ = ["Equality", "SideBySide", "compare_bits", "race", "training_step"]


@dataclass(frozen=True, kw_only=True)
class Equality:
    """What was compared; `difference` names the first one, or is None."""

    batches: int
    tensors: int
    values: int
    difference: str | None


@dataclass(frozen=True, kw_only=True)
class SideBySide:
    """The same batches from both loaders; times are sums over the rounds."""

    native: PhaseMetrics
    cpu: PhaseMetrics

    @property
    def speedup(self) -> float:
        """How many times faster the native loader is."""
        return self.cpu.total_s / self.native.total_s


def compare_bits(native: Iterable[Batch], cpu: Iterable[Batch]) -> Equality:
    """Compares dates, and every tensor of every step bit for bit: the sign of zero counts."""
    batches = tensors = values = 0
    for ours, theirs in zip(native, cpu, strict=True):
        if not np.array_equal(ours.times, theirs.times):
            return Equality(
                batches=batches, tensors=tensors, values=values, difference=f"times of {batches}"
            )
        for number, (a, b) in enumerate(zip(ours, theirs, strict=True)):
            for role, left, right in zip(a._fields, a, b, strict=True):
                if not torch.equal(left.view(torch.int32), right.view(torch.int32)):
                    where = f"batch {batches}, step {number}, {role}"
                    return Equality(
                        batches=batches, tensors=tensors, values=values, difference=where
                    )
                tensors += 1
                values += left.numel()
        batches += 1
    return Equality(batches=batches, tensors=tensors, values=values, difference=None)


def race(
    native: Loader, cpu: Loader, *, rounds: int, work: Callable[[Batch], None] | None = None
) -> SideBySide:
    """Takes all batches of both loaders in turn, `rounds` times after one round to warm up.

    `work` is done with each batch; without it, batches are only taken.
    """
    passes: tuple[list[PhaseMetrics], list[PhaseMetrics]] = ([], [])
    for number in range(rounds + 1):
        for loader, found in zip((native, cpu), passes, strict=True):
            meter = EpochMeter()
            for batch in meter.watch(loader):
                if work is not None:
                    work(batch)
            if number:
                found.append(meter.result(loss=0.0))
    return SideBySide(native=_total(passes[0]), cpu=_total(passes[1]))


def training_step(model: OceanNet) -> Callable[[Batch], None]:
    """The work of one training step, done on a copy of `model` that stays as it is."""
    trained = copy.deepcopy(model).train()
    optimizer = torch.optim.AdamW(trained.parameters(), lr=0.0)

    def step(batch: Batch) -> None:
        optimizer.zero_grad(set_to_none=True)
        masked_loss(trained, batch, trained.change).backward()  # type: ignore[no-untyped-call]
        optimizer.step()

    return step


def _total(passes: list[PhaseMetrics]) -> PhaseMetrics:
    return PhaseMetrics(
        loss=0.0,
        batches=sum(p.batches for p in passes),
        samples=sum(p.samples for p in passes),
        delivered_bytes=sum(p.delivered_bytes for p in passes),
        wait_s=sum(p.wait_s for p in passes),
        total_s=sum(p.total_s for p in passes),
    )
