from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from niskin.batch import Batch
from niskin.config import TrainConfig
from niskin.config_file import parse_config
from niskin.cpu_loader import CpuLoader
from niskin.errors import UsageError
from niskin.train import Trainer
from niskin.train.data import RunData
from niskin.train.trainer import choose_device
from stores import tiny_store

ROWS = 24  # five-day rows from 1958-01-03 12:00


class SpyLoader(CpuLoader):
    """A CpuLoader in this process that can be made to fail, and remembers what was asked of it."""

    def __init__(self, shards: Sequence[Any], sampler: Any, **options: Any) -> None:
        self.asked = dict(options)
        for unused in ("prefetch_batches", "num_workers", "persistent_workers"):
            options.pop(unused, None)
        super().__init__(shards, sampler, **options)
        self.name = self.shards[0].key.split("-")[0]
        self.steps = self.shards[0].steps
        self.epochs: list[int] = []
        self.seen: list[list[int]] = []
        self.closed = 0
        self.fail_in_epoch: int | None = None

    def set_epoch(self, epoch: int) -> None:
        self.epochs.append(epoch)
        super().set_epoch(epoch)

    def close(self, deadline_s: float = 2.0) -> None:
        self.closed += 1
        super().close(deadline_s)

    def __iter__(self) -> Iterator[Batch]:  # type: ignore[override]
        for batch in super().__iter__():
            if self.epochs and self.epochs[-1] == self.fail_in_epoch:
                raise OSError("the disk is gone")
            self.seen.append(batch.indices.tolist())
            yield batch


class Spies:
    """Makes spies, optionally one that fails: (name of its shards, epoch)."""

    def __init__(self, fail: tuple[str, int] | None = None) -> None:
        self.fail = fail
        self.made: list[SpyLoader] = []

    def __call__(self, type: str, shards: Any, schedule: Any, **options: Any) -> SpyLoader:
        spy = SpyLoader(shards, schedule, **options)
        if self.fail is not None and spy.name == self.fail[0]:
            spy.fail_in_epoch = self.fail[1]
        self.made.append(spy)
        return spy

    def named(self, name: str) -> list[SpyLoader]:
        return [spy for spy in self.made if spy.name == name]


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store")
    tiny_store(path, rows=ROWS, ny=6, nx=8, levels=2)
    return path


def config(store: Path, out: Path, *, inference: bool = False, **changes: Any) -> TrainConfig:
    source: dict[str, Any] = {
        "data_location": "OM4.zarr",
        "data_means_location": "OM4_means.zarr",
        "data_stds_location": "OM4_stds.zarr",
        "prognostic_vars_key": ["thetao_0", "thetao_1", "zos"],
        "boundary_vars_key": "tau_hfds",
        "train_time": {"start": "1958-01-03", "end": "1958-03-09"},  # 14 rows
        "val_time": {"start": "1958-03-14", "end": "1958-04-28"},  # 10 rows
    }
    if inference:
        source["inference_times"] = [{"start": "1958-03-14", "end": "1958-04-28"}]
    data = {"sources": [source]} | changes.pop("data", {})
    values: dict[str, Any] = {
        "experiment": {"data_root": str(store), "output_dir": str(out), "name": "run"},
        "data": data,
        "model": {"widths": [4, 4]},
        "epochs": 2,
        "steps": [1],
        "learning_rate": 1e-2,
        "device": "cpu",
    }
    return parse_config(values | changes)


def test_a_run_trains_validates_and_leaves_checkpoints_and_metrics(
    store: Path, tmp_path: Path
) -> None:
    result = Trainer(config(store, tmp_path), make=Spies()).run()
    # 14 rows, hist 1, one step: 11 samples, 5 full batches of 2; validation 7 samples, 4 batches.
    assert [e.train.batches for e in result.epochs] == [5, 5]
    assert [(e.validation.batches, e.validation.samples) for e in result.epochs] == [(4, 7)] * 2
    assert len(result.losses) == 10
    assert np.isfinite(result.losses).all()
    names = sorted(p.name for p in (tmp_path / "run").iterdir())
    assert names == ["epoch-0001.pt", "epoch-0002.pt", "metrics.jsonl"]
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2]
    assert 0.0 <= json.loads(lines[0])["train"]["wait_share"] <= 1.0
    saved = torch.load(result.checkpoint)
    assert saved["prognostic"] == ["thetao_0", "thetao_1", "zos"]
    assert parse_config(saved["config"]).epochs == 2


def test_training_lowers_the_loss(store: Path, tmp_path: Path) -> None:
    result = Trainer(config(store, tmp_path, epochs=12), make=Spies()).run()
    assert result.epochs[-1].train.loss < 0.5 * result.epochs[0].train.loss


def test_the_same_seed_gives_the_same_losses(store: Path, tmp_path: Path) -> None:
    runs = [Trainer(config(store, tmp_path / name), make=Spies()).run() for name in ("a", "b")]
    assert runs[0].losses == runs[1].losses


def test_the_global_generator_is_left_alone(store: Path, tmp_path: Path) -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    Trainer(config(store, tmp_path, epochs=1), make=Spies()).run()
    assert torch.equal(torch.rand(2), expected)


def test_both_loaders_are_told_every_epoch(store: Path, tmp_path: Path) -> None:
    spies = Spies()
    Trainer(config(store, tmp_path, epochs=3), make=spies).run()
    (train,), (val,) = spies.named("train"), spies.named("val")
    assert train.epochs == [1, 1, 2, 3]  # the first one measures the usual change
    assert val.epochs == [1, 2, 3]
    assert train.seen[5:10] != train.seen[10:15]


def test_loaders_are_rebuilt_when_the_rollout_grows(store: Path, tmp_path: Path) -> None:
    spies = Spies()
    Trainer(config(store, tmp_path, epochs=4, steps=[1, 2], step_transition=[3]), make=spies).run()
    one, two = spies.named("train")
    assert (one.steps, one.epochs) == (1, [1, 1, 2])
    assert (two.steps, two.epochs) == (2, [3, 4])
    assert [spy.steps for spy in spies.named("val")] == [1]
    assert all(spy.closed for spy in spies.made)


def test_strides_make_shards_of_their_own_and_only_the_first_source_is_validated(
    store: Path, tmp_path: Path
) -> None:
    c = config(store, tmp_path, data_stride=[1, 2])
    twice = c.model_copy(update={"data": c.data.model_copy(update={"sources": c.data.sources * 2})})
    data = RunData.open(twice)
    shards = data.train_shards(twice, steps=1)
    assert [(s.id, s.stride) for s in shards] == [
        ("train-0", 1), ("train-1", 1), ("train-2", 2), ("train-3", 2)
    ]  # fmt: skip
    assert [(s.id, s.stride) for s in data.validation_shards(twice)] == [("val-0", 1), ("val-1", 2)]


def test_inference_rolls_on_without_a_gap(store: Path, tmp_path: Path) -> None:
    spies = Spies()
    result = Trainer(config(store, tmp_path, inference=True, epochs=1), make=spies).run()
    (inference,) = spies.named("inference")
    assert inference.seen == [[0], [2], [4], [6]]  # 10 rows, two at a time, the last two are labels
    assert result.inference is not None
    assert len(result.inference.model) == len(result.inference.persistence) == 4
    assert inference.closed


@pytest.mark.parametrize("fail", [("train", 2), ("val", 1), ("inference", 0)])
def test_every_loader_is_closed_when_one_fails(
    store: Path, tmp_path: Path, fail: tuple[str, int]
) -> None:
    spies = Spies(fail)
    trainer = Trainer(config(store, tmp_path, inference=True), make=spies)
    if fail[0] == "inference":
        original = SpyLoader.__iter__

        def broken(self: SpyLoader) -> Iterator[Batch]:
            if self.name == "inference":
                raise OSError("the disk is gone")
            return original(self)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SpyLoader, "__iter__", broken)
            with pytest.raises(OSError, match="the disk is gone"):
                trainer.run()
    else:
        with pytest.raises(OSError, match="the disk is gone"):
            trainer.run()
    assert all(spy.closed for spy in spies.made)


def test_every_loader_is_closed_when_the_training_step_fails(store: Path, tmp_path: Path) -> None:
    spies = Spies()
    trainer = Trainer(config(store, tmp_path), make=spies)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    trainer.model.register_forward_pre_hook(interrupt)
    with pytest.raises(KeyboardInterrupt):
        trainer.run()
    assert len(spies.made) == 2
    assert all(spy.closed for spy in spies.made)


def test_a_loss_that_is_not_finite_names_its_epoch_and_batch(store: Path, tmp_path: Path) -> None:
    trainer = Trainer(config(store, tmp_path), make=Spies())
    torch.nn.init.constant_(trainer.model.linear.bias, float("nan"))
    with pytest.raises(UsageError, match="epoch 1: the loss of batch 0 is nan"):
        trainer.run()


def test_a_record_with_fewer_samples_than_a_batch_is_refused(store: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fewer samples than batch_size 40"):
        Trainer(config(store, tmp_path, batch_size=40), make=Spies()).run()


def test_a_date_in_training_and_validation_is_reported_with_its_value(
    store: Path, tmp_path: Path
) -> None:
    c = config(store, tmp_path)
    source = c.data.sources[0]
    touching = source.model_copy(update={"val_time": source.val_time.model_copy(
        update={"start": "1958-03-09"}
    )})  # fmt: skip
    data = c.data.model_copy(update={"sources": (touching,)})
    with pytest.warns(UserWarning, match="1958-03-09 12:00:00"):
        RunData.open(c.model_copy(update={"data": data}))


def test_max_batches_limits_both_phases(store: Path, tmp_path: Path) -> None:
    result = Trainer(config(store, tmp_path, epochs=1, max_batches=2), make=Spies()).run()
    assert (result.epochs[0].train.batches, result.epochs[0].validation.batches) == (2, 2)


def test_loading_options_reach_the_loader(store: Path, tmp_path: Path) -> None:
    spies = Spies()
    loading = {"type": "native", "prefetch_batches": 3, "writable": True}
    Trainer(config(store, tmp_path, epochs=1, data={"loading": loading}), make=spies).run()
    for spy in spies.made:
        assert spy.asked["prefetch_batches"] == 3
        assert spy.asked["writable"] is True
        assert spy.asked["pin_memory"] is False


def test_cpu_workers_have_seeds_of_their_own(store: Path, tmp_path: Path) -> None:
    spies = Spies()
    loading = {"type": "cpu", "num_workers": 1}
    Trainer(config(store, tmp_path, epochs=1, data={"loading": loading}), make=spies).run()
    seeds = {spy.name: spy.asked["worker_seed"] for spy in spies.made}
    assert seeds == {"train": 15, "val": 16}


def test_a_gpu_that_is_not_there_is_refused() -> None:
    if torch.cuda.is_available():
        assert choose_device("auto").type == "cuda"
    else:
        assert choose_device("auto").type == "cpu"
        with pytest.raises(UsageError, match="sees no GPU"):
            choose_device("cuda")
