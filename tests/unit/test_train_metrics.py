from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from niskin.train.checkpoint import save_checkpoint
from niskin.train.metrics import EpochMeter


class FakeBatch:
    """Two samples of ten bytes."""

    indices = (0, 1)
    bytes_delivered = 20


class Clock:
    """A clock that only moves when told to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def slow_loader(clock: Clock, batches: int, wait_s: float) -> Iterator[FakeBatch]:
    for _ in range(batches):
        clock.now += wait_s
        yield FakeBatch()


def test_the_meter_separates_waiting_from_working() -> None:
    clock = Clock()
    meter = EpochMeter(clock)
    for _ in meter.watch(slow_loader(clock, batches=3, wait_s=1.0)):
        clock.now += 3.0
    metrics = meter.result(loss=0.5)
    assert (metrics.batches, metrics.samples, metrics.delivered_bytes) == (3, 6, 60)
    assert (metrics.wait_s, metrics.total_s, metrics.wait_share) == (3.0, 12.0, 0.25)
    assert metrics.samples_per_s == 0.5
    assert metrics.as_dict()["delivered_gb_per_s"] == 60 / 1e9 / 12


def test_a_limit_takes_no_batch_too_many() -> None:
    clock = Clock()
    source = slow_loader(clock, batches=9, wait_s=1.0)
    assert len(list(EpochMeter(clock).watch(source, limit=2))) == 2
    assert clock.now == 2.0


def test_an_epoch_without_time_has_rates_of_zero() -> None:
    assert EpochMeter(Clock()).result(loss=0.0).samples_per_s == 0.0


def test_a_checkpoint_reads_back_and_leaves_nothing_else(tmp_path: Path) -> None:
    model = torch.nn.Linear(2, 1)
    path = save_checkpoint(tmp_path, epoch=3, model=model, details={"config": {"epochs": 4}})
    assert [p.name for p in tmp_path.iterdir()] == ["epoch-0003.pt"]
    found = torch.load(path)
    assert (found["epoch"], found["config"]) == (3, {"epochs": 4})
    assert torch.equal(found["model"]["weight"], model.weight)


def test_a_checkpoint_that_fails_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = torch.nn.Linear(2, 1)
    path = save_checkpoint(tmp_path, epoch=1, model=model, details={})
    before = path.read_bytes()

    def fail(*_: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(torch, "save", fail)
    with pytest.raises(OSError, match="disk full"):
        save_checkpoint(tmp_path, epoch=1, model=model, details={})
    assert list(tmp_path.iterdir()) == [path]
    assert path.read_bytes() == before
