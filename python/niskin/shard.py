"""TrainingShard: the samples of one source, and the rows that each of them needs.

Sample i of a shard with history h, S rollout steps and stride d starts at row i and needs the
rows `i + d*k`, k = 0 .. (S+1)(h+1)-1. Step s has the input and boundary rows k in
[s(h+1), (s+1)(h+1)) and the label rows k in [(s+1)(h+1), (s+2)(h+1)). Everything here is pure: no
I/O, no clock, no randomness.
"""

from __future__ import annotations

import itertools
import operator
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from niskin.bases import BasePlan, Role, RowLayout, unique_bytes
from niskin.errors import UsageError
from niskin.indexing import as_indices, can_share, resolve
from niskin.read_plan import ReadPlan, StepPlan, Use
from niskin.spacing import parse_gap, starts_without_hole, warn_if_irregular

if TYPE_CHECKING:
    from niskin.canonical import CanonicalDataset

__all__ = [
    "BasePlan",
    "ReadPlan",
    "RowLayout",
    "TrainingShard",
    "can_share",
    "resolve",
    "unique_bytes",
]

_numbers = itertools.count()
_ROLES: tuple[Role, ...] = ("prognostic", "boundary", "label")


@dataclass(frozen=True, eq=False)
class TrainingShard:
    """Windows over one source, labels from the same or another one. Immutable.

    `labels`: a dataset with the same dates and prognostic channels (its grid, statistics and masks
    may differ); default: `source`. `hist`: past rows beside the current one. `steps`: rollout
    steps. `stride`: rows between neighbours in a window. `max_gap` (timedelta, or text like "6D"):
    samples whose span has neighbouring rows farther apart do not exist. `normalize_before_mask` and
    `masked_fill_value` (float32): how dry cells are filled. `id`: names the shard and is its key;
    batches never mix shards; default: a string that is unique in this process.

    Raises UsageError for options out of range, labels that do not match, and a record too short.
    """

    source: CanonicalDataset
    labels: CanonicalDataset | None = None
    hist: int = field(default=1, kw_only=True)
    steps: int = field(default=4, kw_only=True)
    stride: int = field(default=1, kw_only=True)
    max_gap: timedelta | str | None = field(default=None, kw_only=True)
    normalize_before_mask: bool = field(default=True, kw_only=True)
    masked_fill_value: float = field(default=0.0, kw_only=True)
    id: str | None = field(default=None, kw_only=True)
    _starts: NDArray[np.int64] | None = field(default=None, init=False, repr=False)
    _count: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        """Checks every argument and finds the samples."""
        _set(self, "id", f"shard-{next(_numbers)}" if self.id is None else str(self.id))
        for name, least in (("hist", 0), ("steps", 1), ("stride", 1)):
            _set(self, name, self._whole_number(name, least))
        with np.errstate(over="ignore"):
            fill = float(np.float32(self.masked_fill_value))
        if not np.isfinite(fill):
            raise self._wrong(
                "masked_fill_value", self.masked_fill_value, "a number that is finite in float32"
            )
        _set(self, "masked_fill_value", fill)
        _set(self, "normalize_before_mask", bool(self.normalize_before_mask))
        if self.separate_labels:
            self._check_labels(self.label_source)
        self._find_samples()

    def _check_labels(self, labels: CanonicalDataset) -> None:
        if labels.prognostic != self.source.prognostic:
            raise self._wrong("labels", labels.prognostic, f"{self.source.prognostic}")
        ours, theirs = self.source.time, labels.time
        if len(ours) != len(theirs):
            raise self._wrong("labels: different time slices", len(theirs), f"{len(ours)} dates")
        calendars = labels.time[0].calendar, self.source.time[0].calendar
        if calendars[0] != calendars[1]:
            raise self._wrong("labels: calendar", calendars[0], calendars[1])
        differ = np.flatnonzero(ours != theirs)
        if differ.size:
            at = differ[0]
            raise self._wrong(
                f"labels: different time slices: date {at}", theirs[at], f"{ours[at]}"
            )

    def _find_samples(self) -> None:
        time, span = self.source.time, self._span
        if len(time) <= span:
            raise UsageError(
                f"TrainingShard {self.id}: record of {self.source.name} is too short for "
                f"hist={self.hist}, steps={self.steps}, stride={self.stride}: "
                f"need >= {span + 1} steps, have {len(time)}"
            )
        _set(self, "_count", len(time) - span)
        if self.max_gap is None:
            warn_if_irregular(time, store=self.source.store_path)
            return
        gap = parse_gap(self.max_gap)
        starts = starts_without_hole(time, span, gap)
        if starts.size == 0:
            raise self._wrong("max_gap", gap, "a window without a larger gap; there is none")
        if starts.size < self._count:
            starts.flags.writeable = False
            _set(self, "_starts", starts)
            _set(self, "_count", int(starts.size))

    def __len__(self) -> int:
        """Number of samples: T - S(h+1)d - hd without `max_gap`."""
        return self._count

    @property
    def key(self) -> str:
        """What samples must have in common to stand in one batch: the id."""
        return str(self.id)

    @property
    def label_source(self) -> CanonicalDataset:
        """Where labels come from: `source` unless `labels` is given."""
        return self.source if self.labels is None else self.labels

    @property
    def separate_labels(self) -> bool:
        """Whether labels have a base of their own."""
        return self.labels is not None and self.labels is not self.source

    @property
    def prognostic(self) -> tuple[str, ...]:
        """Channels of input and label."""
        return self.source.prognostic

    @property
    def boundary(self) -> tuple[str, ...]:
        """Channels of the boundary."""
        return self.source.boundary

    @property
    def rows_per_sample(self) -> int:
        """Rows of a sample in the prognostic base: (S+1)(h+1), or S(h+1) with separate labels."""
        return (self.steps + (not self.separate_labels)) * (self.hist + 1)

    @property
    def _window(self) -> int:
        return (self.steps + 1) * (self.hist + 1)

    @property
    def _span(self) -> int:
        return self.stride * (self._window - 1)

    def with_steps(self, steps: int) -> TrainingShard:
        """The same shard, with the same id, for another rollout length."""
        return replace(self, steps=steps)

    def starts(self, local_indices: ArrayLike) -> NDArray[np.int64]:
        """Position on `source.time` of the first row of each sample: int64 (B,).

        Raises TypeError unless indices are integers, UsageError for none, IndexError outside
        [0, len(self)).
        """
        local = as_indices(local_indices)
        if local.min() < 0 or local.max() >= self._count:
            bad = local[(local < 0) | (local >= self._count)][0]
            raise IndexError(
                f"shard {self.id}: sample index {bad} is out of range for {self._count} samples"
            )
        return local if self._starts is None else self._starts[local]

    def positions(self, local_indices: ArrayLike) -> NDArray[np.int64]:
        """Positions on `source.time` of all rows of each sample: int64 (B, (S+1)(h+1)).

        Raises what `starts` raises.
        """
        return self.starts(local_indices)[:, None] + _offsets(self._window, self.stride)

    def plan(self, local_indices: ArrayLike) -> ReadPlan:
        """The rows of each step's input, boundary and label, as a value that prints."""
        positions = self.positions(local_indices)
        width = self.hist + 1

        def use(source: CanonicalDataset, channels: tuple[str, ...], step: int) -> Use:
            rows = positions[:, step * width : (step + 1) * width].tolist()
            return Use(source=source.name, channels=channels, rows=tuple(map(tuple, rows)))

        steps = tuple(
            StepPlan(
                input=use(self.source, self.prognostic, s),
                boundary=use(self.source, self.boundary, s),
                label=use(self.label_source, self.prognostic, s + 1),
            )
            for s in range(self.steps)
        )
        indices = tuple(as_indices(local_indices).tolist())
        return ReadPlan(shard=self.key, indices=indices, steps=steps)

    def bases(
        self, local_indices: ArrayLike, *, shared: bool = False, writable: bool = False
    ) -> tuple[BasePlan, ...]:
        """The arrays that a loader fills for a batch, in the order prognostic, boundary[, label].

        `shared`: samples that start one row apart overlap in memory (`can_share` says when;
        UsageError otherwise). `writable`: a base of its own for every tensor, step by step: input,
        boundary, label.
        """
        starts = self.starts(local_indices)
        width, inputs = self.hist + 1, self.steps * (self.hist + 1)
        if writable:
            if shared:
                raise UsageError("bases: got shared and writable, expected one of them")
            return tuple(
                self._base(role, starts, (s + (role == "label")) * width, width, shared=False)
                for s in range(self.steps)
                for role in _ROLES
            )
        if shared and not (self.flattens and bool((np.diff(starts) == 1).all())):
            raise UsageError(
                f"bases: shard {self.id}: got shared=True, expected samples that start one row "
                "apart, and stride 1 or no history"
            )
        bases = (
            self._base("prognostic", starts, 0, self.rows_per_sample, shared=shared),
            self._base("boundary", starts, 0, inputs, shared=shared),
        )
        if self.separate_labels:
            return (*bases, self._base("label", starts, width, inputs, shared=shared))
        return bases

    def _base(
        self, role: Role, starts: NDArray[np.int64], first: int, rows: int, *, shared: bool
    ) -> BasePlan:
        """Rows `first` to `first + rows` of each window, as a base."""
        source = self.label_source if role == "label" else self.source
        begin = starts + first * self.stride
        if shared:
            layout = _layout(len(starts), rows, 1, self.stride)
            positions = begin[0] + np.arange(layout.base_rows)
        else:
            layout = _layout(len(starts), rows, rows, 1)
            positions = (begin[:, None] + _offsets(rows, self.stride)).reshape(-1)
        channels = source.boundary if role == "boundary" else source.prognostic
        return BasePlan(
            role=role, source=source, channels=channels, layout=layout, positions=positions
        )

    @property
    def flattens(self) -> bool:
        """Whether (row, channel) of an overlapping window is one axis of a view."""
        return self.stride == 1 or self.hist == 0

    def _whole_number(self, name: str, least: int) -> int:
        value: Any = getattr(self, name)
        try:
            number = operator.index(value)
        except TypeError:
            raise self._wrong(name, value, f"a whole number, at least {least}") from None
        if number < least:
            raise self._wrong(name, number, f"at least {least}")
        return number

    def _wrong(self, what: str, got: object, expected: str) -> UsageError:
        return UsageError(f"TrainingShard {self.id}: {what}: got {got}, expected {expected}")


@lru_cache(maxsize=64)
def _offsets(rows: int, stride: int) -> NDArray[np.int64]:
    offsets = np.arange(rows, dtype=np.int64) * stride
    offsets.flags.writeable = False
    return offsets


@lru_cache(maxsize=256)
def _layout(samples: int, rows: int, sample_stride: int, row_stride: int) -> RowLayout:
    return RowLayout(samples=samples, rows=rows, sample_stride=sample_stride, row_stride=row_stride)


def _set(shard: TrainingShard, name: str, value: object) -> None:
    object.__setattr__(shard, name, value)
