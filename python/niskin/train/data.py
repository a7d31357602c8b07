"""The data of a run: datasets opened, cut by date and windowed, and the loaders over them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from niskin.canonical import CanonicalDataset, shared_rows
from niskin.config import NativeLoading, Source, TimeRange, TrainConfig
from niskin.cpu_loader import CpuLoader
from niskin.loading import Loader
from niskin.om4 import open_om4
from niskin.sampling import BatchSampler
from niskin.shard import TrainingShard

__all__ = [
    "MakeLoader",
    "RunData",
    "inference_loader",
    "make_loader",
    "training_loader",
    "validation_loader",
]


# (type, shards, schedule, **options) -> loader; `type` is "native" or "cpu", the rest goes to its
# class. Tests put a spy here.
MakeLoader = Callable[..., Loader]


def make_loader(
    type: str, shards: Sequence[TrainingShard], schedule: Any, **options: Any
) -> Loader:
    """A NativeLoader or CpuLoader with the given options."""
    if type == "cpu":
        return CpuLoader(shards, schedule, **options)
    from niskin.native_loader import NativeLoader  # needs the extension; the cpu path does not

    return NativeLoader(shards, schedule, **options)


@dataclass(frozen=True, kw_only=True)
class RunData:
    """The datasets of a run, in the order of `data.sources`; only the first is validated on."""

    train: tuple[CanonicalDataset, ...]
    validation: CanonicalDataset
    inference: CanonicalDataset | None = None

    @classmethod
    def open(cls, config: TrainConfig) -> RunData:
        """Opens every source and cuts it by date.

        Warns with the dates that training and validation share. Raises what `niskin.open_om4` and
        `CanonicalDataset.between` raise.
        """
        opened = [_open(config, source) for source in config.data.sources]
        train = tuple(
            _cut(dataset, source, source.train_time)
            for dataset, source in zip(opened, config.data.sources, strict=True)
        )
        primary = config.data.sources[0]
        validation = _cut(opened[0], primary, primary.val_time)
        ranges = primary.inference_times
        inference = _cut(opened[0], primary, ranges[0]) if ranges else None
        for number, dataset in enumerate(train):
            shared = shared_rows(dataset, validation)
            if len(shared):
                dates = ", ".join(str(date) for date in shared[:3])
                warnings.warn(
                    f"data.sources[{number}]: {len(shared)} date(s) in training and validation: "
                    f"{dates}; exclusive_end: true drops the end of each range",
                    stacklevel=2,
                )
        return cls(train=train, validation=validation, inference=inference)

    def train_shards(self, config: TrainConfig, steps: int) -> list[TrainingShard]:
        """A shard per stride and source: "train-0", "train-1", …"""
        pairs = [(stride, source) for stride in config.data_stride for source in self.train]
        return [
            _shard(config, source, steps=steps, stride=stride, id=f"train-{number}")
            for number, (stride, source) in enumerate(pairs)
        ]

    def validation_shards(self, config: TrainConfig) -> list[TrainingShard]:
        """A shard of one rollout step per stride, on the first source: "val-0", "val-1", …"""
        return [
            _shard(config, self.validation, steps=1, stride=stride, id=f"val-{number}")
            for number, stride in enumerate(config.data_stride)
        ]


def training_loader(
    config: TrainConfig, data: RunData, *, steps: int, device: str, make: MakeLoader
) -> Loader:
    """Shuffled batches with rollouts of `steps`; a short last batch is dropped."""
    shards = data.train_shards(config, steps)
    return _loader(config, shards, drop_last=True, seed_offset=0, device=device, make=make)


def validation_loader(
    config: TrainConfig, data: RunData, *, device: str, make: MakeLoader
) -> Loader:
    """Shuffled batches of one rollout step; a short last batch is kept."""
    shards = data.validation_shards(config)
    return _loader(config, shards, drop_last=False, seed_offset=1, device=device, make=make)


def inference_loader(
    config: TrainConfig, data: RunData, *, device: str, make: MakeLoader
) -> Loader | None:
    """Batches of one sample that follow each other without a gap, for one long rollout.

    Batch k holds the window that starts at row k(h+1). None where no inference dates are given.
    """
    if data.inference is None:
        return None
    shard = _shard(config, data.inference, steps=1, stride=1, id="inference-0")
    schedule = [[start] for start in range(0, len(shard), config.data.hist + 1)]
    options = config.data.inference_loading
    return make(
        "cpu",
        [shard],
        schedule,
        device=device,
        num_workers=options.num_workers,
        persistent_workers=options.persistent_workers,
    )


def _open(config: TrainConfig, source: Source) -> CanonicalDataset:
    return open_om4(
        config.path(source.data_location),
        config.path(source.data_means_location),
        config.path(source.data_stds_location),
        prognostic=source.prognostic_vars_key,
        boundary=source.boundary_vars_key,
        missing_chunks=source.missing_chunks,
        bad_values=source.bad_values,
    )


def _cut(dataset: CanonicalDataset, source: Source, dates: TimeRange) -> CanonicalDataset:
    return dataset.between(
        dates.start, dates.end, clip=source.clip, exclusive_end=source.exclusive_end
    )


def _shard(
    config: TrainConfig, source: CanonicalDataset, *, steps: int, stride: int, id: str
) -> TrainingShard:
    return TrainingShard(
        source,
        hist=config.data.hist,
        steps=steps,
        stride=stride,
        max_gap=config.data.max_gap,
        normalize_before_mask=config.data.normalize_before_mask,
        masked_fill_value=config.data.masked_fill_value,
        id=id,
    )


def _loader(
    config: TrainConfig,
    shards: Sequence[TrainingShard],
    *,
    drop_last: bool,
    seed_offset: int,
    device: str,
    make: MakeLoader,
) -> Loader:
    sampler = BatchSampler(
        shards,
        batch_size=config.batch_size,
        shuffle=True,
        drop_last=drop_last,
        seed=config.experiment.rand_seed,
    )
    loading = config.data.loading
    pin = loading.pin_memory
    options: dict[str, Any] = {
        "device": device,
        "pin_memory": config.pin_mem and device != "cpu" if pin is None else pin,
        "writable": loading.writable,
    }
    if isinstance(loading, NativeLoading):
        limits = ("max_concurrent_reads", "decode_threads", "memory_limit")
        options["prefetch_batches"] = loading.prefetch_batches
        options |= {k: v for k in limits if (v := getattr(loading, k)) is not None}
    else:
        options["num_workers"] = loading.num_workers
        options["persistent_workers"] = loading.persistent_workers
        options["worker_seed"] = config.experiment.rand_seed + seed_offset
    return make(loading.type, shards, sampler, **options)
