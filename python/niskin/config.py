"""Configuration of a training run: strict, frozen pydantic models.

Read one with `niskin.config_file.load_config`; `TrainConfig.model_json_schema()` gives the schema
for editors. Every key is checked: an unknown one is refused with the nearest known name, a value
of another type is refused rather than converted.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    field_validator,
    model_validator,
)

from niskin.errors import near_names

__all__ = [
    "CpuLoading",
    "Data",
    "Experiment",
    "InferenceLoading",
    "Model",
    "NativeLoading",
    "Source",
    "TimeRange",
    "TrainConfig",
]


class _Strict(BaseModel):
    """Frozen, no conversions, unknown keys refused with the nearest known one."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, values: Any) -> Any:
        if isinstance(values, Mapping):
            unknown = [str(key) for key in values if key not in cls.model_fields]
            if unknown:
                hints = (f'"{k}" (near: {near_names(k, cls.model_fields)})' for k in unknown)
                raise ValueError("unknown key " + ", ".join(hints))
        return values


def _as_tuple(value: Any) -> Any:
    """Lists are how YAML spells the tuples of these frozen models."""
    return tuple(value) if isinstance(value, list) else value


PositiveInts = Annotated[tuple[PositiveInt, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
Names = Annotated[tuple[str, ...], BeforeValidator(_as_tuple), Field(min_length=1)]

_DATE = re.compile(
    r"(\d{4})(?:-(0[1-9]|1[0-2])(?:-(0[1-9]|[12]\d|3[01])"
    r"(?:[T ]([01]\d|2[0-3]):([0-5]\d)(?::([0-5]\d))?)?)?)?"
)
# An open part of a date stands for the first instant of its period at the start of a range and for
# the last one at the end. Bounds are only compared with each other, so day 31 does for every month.
_FIRST, _LAST = (0, 1, 1, 0, 0, 0), (0, 12, 31, 23, 59, 59)


def _date_text(value: Any) -> Any:
    return f"{value:04d}" if type(value) is int else value  # YAML reads a bare year as a number


Date = Annotated[
    str, BeforeValidator(_date_text), Field(pattern=f"^{_DATE.pattern}$", examples=["1975-01-03"])
]


def _bound(date: str, fill: tuple[int, ...]) -> tuple[int, ...]:
    match = _DATE.fullmatch(date)
    parts = match.groups() if match else ()
    return tuple(int(p) if p is not None else f for p, f in zip(parts, fill, strict=True))


class TimeRange(_Strict):
    """A range of dates in the store's own calendar, both ends included.

    A date is "YYYY", "YYYY-MM", "YYYY-MM-DD" or the latter with a time; a partial one means all of
    its period.
    """

    start: Date
    end: Date

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if _bound(self.start, _FIRST) > _bound(self.end, _LAST):
            raise ValueError(f"start {self.start} lies after end {self.end}")
        return self

    def overlaps(self, other: TimeRange) -> bool:
        """True where the two share more than an end: ranges that touch in a date do not."""
        return _before(self.start, other.end) and _before(other.start, self.end)


def _before(start: str, end: str) -> bool:
    """True where the period of `start` opens before that of `end` closes, and they differ."""
    return start != end and _bound(start, _FIRST) < _bound(end, _LAST)


def _location(value: Any) -> Any:
    """A path as text, or {type: local, path: absolute}; anything remote is refused."""
    if isinstance(value, Mapping):
        kind, path = value.get("type"), value.get("path")
        if kind != "local":
            raise ValueError(f"location type {kind!r}, but only local data can be read")
        if not isinstance(path, str) or len(value) != 2 or not Path(path).is_absolute():
            raise ValueError("a local location is {type: local, path: <absolute path>}")
        return path
    if isinstance(value, str) and "://" in value:
        raise ValueError(f"{value!r} is a URL, but only local data can be read")
    return value


Location = Annotated[str, BeforeValidator(_location), Field(min_length=1)]


def _refuse_llc(value: Any) -> Any:
    if value == "llc":
        raise ValueError("sources of type llc are not read by this version; use om4")
    return value


class Source(_Strict):
    """One OM4 store with its statistics, and the dates taken from it."""

    type: Annotated[Literal["om4"], BeforeValidator(_refuse_llc)] = "om4"
    data_location: Location
    data_means_location: Location
    data_stds_location: Location
    prognostic_vars_key: str | Names = "thermo_dynamic_all"
    boundary_vars_key: str | Names = "tau_hfds"
    grid_type: Literal["gaussian", "tripolar"] = "gaussian"
    train_time: TimeRange
    val_time: TimeRange
    inference_times: Annotated[
        tuple[TimeRange, ...], BeforeValidator(_as_tuple), Field(max_length=1)
    ] = ()
    missing_chunks: Literal["error", "warn", "fill"] = "error"
    bad_values: Literal["error", "warn", "ignore"] = "warn"
    clip: bool = False
    exclusive_end: bool = False

    @model_validator(mode="after")
    def _apart(self) -> Self:
        train, val = self.train_time, self.val_time
        if train.overlaps(val):
            raise ValueError(
                f"Training time range {train.start}..{train.end} overlaps the validation time "
                f"range {val.start}..{val.end}"
            )
        return self


class NativeLoading(_Strict):
    """Batches from the C++ loader. Sizes are bytes; None leaves the choice to the loader."""

    type: Literal["native"] = "native"
    prefetch_batches: PositiveInt = 2
    max_concurrent_reads: PositiveInt | None = None
    decode_threads: PositiveInt | None = None
    memory_limit: PositiveInt | None = None
    pin_memory: bool | None = None
    writable: bool = False


class CpuLoading(_Strict):
    """The same batches through xarray and a torch DataLoader."""

    type: Literal["cpu"]
    num_workers: NonNegativeInt = 4
    persistent_workers: bool = True
    pin_memory: bool | None = None
    writable: bool = False


def _loading(value: Any) -> Any:
    """`type` defaults to native, `rust` is its old name, other systems' backends are refused."""
    if not isinstance(value, Mapping):
        return value
    kind = value.get("type", "native")
    if kind in ("gpu", "llc"):
        raise ValueError(f"loading type {kind!r} is not offered by this version; use native or cpu")
    return {**value, "type": "native" if kind == "rust" else kind}


Loading = Annotated[
    NativeLoading | CpuLoading, Field(discriminator="type"), BeforeValidator(_loading)
]


class InferenceLoading(_Strict):
    """Workers of the loader that feeds the rollout over `inference_times`."""

    num_workers: NonNegativeInt = 4
    persistent_workers: bool = True


class Data(_Strict):
    """What is read and how it is prepared."""

    sources: Annotated[tuple[Source, ...], BeforeValidator(_as_tuple), Field(min_length=1)]
    loading: Loading = NativeLoading()
    inference_loading: InferenceLoading = InferenceLoading()
    hist: NonNegativeInt = 1
    max_gap: Annotated[str, Field(min_length=1)] | None = None
    loader_version: Literal["om4-torch"] = "om4-torch"
    normalize_before_mask: bool = True
    masked_fill_value: float = 0.0
    concurrent_compute: Literal[False] = False

    @model_validator(mode="after")
    def _same_layout(self) -> Self:
        first = self.sources[0]
        for number, source in enumerate(self.sources[1:], start=1):
            for key in ("prognostic_vars_key", "boundary_vars_key", "grid_type"):
                if getattr(source, key) != getattr(first, key):
                    raise ValueError(
                        f"sources[{number}].{key} differs from sources[0]: all sources must have "
                        "the same data layout"
                    )
            if source.inference_times:
                raise ValueError(
                    f"sources[{number}].inference_times: only the first source may have them"
                )
        return self


class Model(_Strict):
    """Size of the U-Net: channels per resolution, finest first; edge in cells of its patches."""

    widths: PositiveInts = (32, 64, 96)
    patch: PositiveInt = 1


class Experiment(_Strict):
    """Where things are, and the seed. Relative paths are relative to the working directory."""

    name: Annotated[str, Field(min_length=1)] = "niskin"
    data_root: str = "."
    output_dir: str = "runs"
    rand_seed: int = 15


class TrainConfig(_Strict):
    """Everything that `niskin train` needs."""

    MAX_DEBUG_BATCHES: ClassVar[int] = 4

    experiment: Experiment = Experiment()
    data: Data
    model: Model = Model()
    epochs: PositiveInt = 10
    batch_size: PositiveInt = 2
    steps: PositiveInts = (4,)
    step_transition: Annotated[tuple[PositiveInt, ...], BeforeValidator(_as_tuple)] = ()
    data_stride: PositiveInts = (1,)
    learning_rate: PositiveFloat = 1e-3
    weight_decay: NonNegativeFloat = 0.01
    clip_grad_norm: PositiveFloat | None = 1.0
    max_batches: PositiveInt | None = None
    debug: bool = False
    device: str = "auto"
    pin_mem: bool = True
    disk_mode: Literal[True] = True

    @field_validator("device")
    @classmethod
    def _device(cls, device: str) -> str:
        if not re.fullmatch(r"auto|cpu|cuda(:\d+)?", device):
            raise ValueError(f"got {device!r}, expected auto, cpu, cuda or cuda:<number>")
        return device

    @model_validator(mode="after")
    def _transitions(self) -> Self:
        wanted = len(self.steps) - 1
        if len(self.step_transition) != wanted:
            raise ValueError(
                f"step_transition has {len(self.step_transition)} entries, but steps has "
                f"{wanted + 1}: expected {wanted}"
            )
        if list(self.step_transition) != sorted(set(self.step_transition)):
            raise ValueError(f"step_transition must increase: got {list(self.step_transition)}")
        return self

    @property
    def output_dir(self) -> Path:
        """Directory of this run's checkpoints and metrics."""
        return Path(self.experiment.output_dir) / self.experiment.name

    @property
    def batch_limit(self) -> int | None:
        """Most batches that an epoch may take, if it is limited."""
        return self.MAX_DEBUG_BATCHES if self.debug else self.max_batches

    def path(self, location: str) -> Path:
        """A data location, resolved against `experiment.data_root`."""
        return Path(self.experiment.data_root).expanduser() / location

    def steps_in(self, epoch: int) -> int:
        """Rollout steps of `epoch` (1-based): a transition at epoch e counts from e on."""
        return self.steps[sum(transition <= epoch for transition in self.step_transition)]
