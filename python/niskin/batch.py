"""Batch: the rollout steps of some samples, every tensor a view of two or three bases.

A batch holds one window tensor per role (`niskin.bases`); input, boundary and label of each step
are views of them, built when first asked for. Tensors are read-only by contract, because the label
of a step is the input of the next: torch's version counter shows a write, and `check_unwritten`
reports it. Writes through `.data`, `.numpy()` or DLPack are not seen. A batch made with
`writable=True` has memory of its own for every tensor.

Bases are torch tensors, or NumPy arrays where torch is not used; torch is imported only for the
former.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from niskin.bases import Role, RowLayout
from niskin.batch_context import BatchContext, make_context
from niskin.errors import UsageError

if TYPE_CHECKING:
    import torch
    import xarray as xr

__all__ = ["Batch", "BatchContext", "Part", "Step", "make_context"]

# torch.Tensor, or a NumPy array in a batch of arrays.
Array: TypeAlias = Any


class Step(NamedTuple):
    """The float32 tensors of one rollout step, channels time-major: channel = row * C + c."""

    prognostic: Array  # (B, (h+1)*C, lat, lon)
    boundary: Array  # (B, (h+1)*Cb, lat, lon)
    label: Array  # (B, (h+1)*C, label lat, label lon)

    def __reduce__(self) -> tuple[Any, ...]:
        # Pickled as it is, a view would take the whole base along, once for each tensor.
        return Step, tuple(x.copy() if isinstance(x, np.ndarray) else x.clone() for x in self)


class Part(Protocol):
    """What a batch must know of a base; `niskin.bases.BasePlan` says it."""

    @property
    def role(self) -> Role:
        """What the base holds."""

    @property
    def channels(self) -> tuple[str, ...]:
        """Names along axis 1 of the base."""

    @property
    def layout(self) -> RowLayout:
        """Where the rows of each sample lie."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _BarePart:
    """A `Part` without the dataset, for pickles."""

    role: Role
    channels: tuple[str, ...]
    layout: RowLayout


class Batch:
    """A sequence of S rollout steps, and what they belong to.

    `indices`: int64 (B,), global sample indices. `times`: cftime (B, (S+1)(h+1)), the date of each
    row. `valid`: bool (B,), False for samples that only fill up the last step of an epoch. `stats`:
    seconds spent on this batch. `context`: label mask and coordinates. `bases` and `plans`: the
    memory, and what it holds, in the order of `TrainingShard.bases`.
    """

    __slots__ = (
        "__weakref__", "_copies", "_steps", "_versions", "_width", "bases", "context", "indices",
        "plans", "stats", "times", "valid", "writable",
    )  # fmt: skip

    def __init__(
        self,
        *,
        indices: NDArray[np.int64],
        times: NDArray[np.object_],
        valid: NDArray[np.bool_],
        stats: Mapping[str, float],
        context: BatchContext,
        bases: Sequence[Array],
        plans: Sequence[Part],
        hist: int,
        steps: int,
        writable: bool = False,
    ) -> None:
        for base, plan in zip(bases, plans, strict=True):
            rows, channels = plan.layout.base_rows, len(plan.channels)
            whole = base.flags.c_contiguous if _is_numpy(base) else base.is_contiguous()
            if tuple(base.shape[:2]) != (rows, channels) or not whole:
                raise UsageError(
                    f"batch {indices.tolist()}: {plan.role} base: got shape {tuple(base.shape)}"
                    f"{'' if whole else ' not contiguous'}, expected ({rows}, {channels}, lat, lon)"
                )
        self.indices = indices
        self.times = times
        self.valid = valid
        self.stats = dict(stats)
        self.context = context
        self.bases = tuple(bases)
        self.plans = tuple(plans)
        self.writable = writable
        self._width = hist + 1
        self._steps: list[Step | None] = [None] * steps
        self._versions = [0 if _is_numpy(base) else base._version for base in bases]
        self._copies: list[weakref.ref[Batch]] = []

    def __len__(self) -> int:
        """S, the number of rollout steps."""
        return len(self._steps)

    def __getitem__(self, step: int) -> Step:
        """The tensors of a step, always the same ones. IndexError beyond the last."""
        found = self._steps[step]
        if found is None:
            with _normal_tensors(self.bases[0]):
                found = self._steps[step] = self._build(range(len(self))[step])
        return found

    def __iter__(self) -> Iterator[Step]:
        return (self[s] for s in range(len(self)))

    def __repr__(self) -> str:
        shapes = ", ".join(f"{plan.role} {tuple(base.shape)}" for plan, base in self._held)
        return f"Batch(indices={self.indices.tolist()}, steps={len(self)}, {shapes})"

    @property
    def hist(self) -> int:
        """Past rows of a step beside the current one."""
        return self._width - 1

    @property
    def device(self) -> torch.device | None:
        """Where the tensors lie; None for NumPy arrays."""
        base = self.bases[0]
        return None if _is_numpy(base) else base.device

    @property
    def bytes_delivered(self) -> int:
        """Bytes of the tensors of all steps, as a consumer sees them, views included."""
        if self.writable:
            return sum(base.nbytes for base in self.bases)
        rows = {"prognostic": 1, "boundary": 1, "label": 1}
        if len(self.bases) == 2:
            rows["prognostic"] = 2  # inputs and labels
        return sum(
            rows[plan.role] * len(self) * self._width * plan.layout.samples * base[0].nbytes
            for plan, base in self._held
        )

    def check_unwritten(self) -> None:
        """Raises UsageError, naming the batch, if a tensor was written to.

        Covers the batches that `to` and `pin_memory` made of this one, while they exist.
        """
        if self.writable:
            return
        for (plan, base), version in zip(self._held, self._versions, strict=True):
            if not _is_numpy(base) and base._version != version:
                raise UsageError(
                    f"batch {self.indices.tolist()}: a {plan.role} tensor was written to, expected "
                    "read-only use: the label of a step is the input of the next\n"
                    "  hint:  copy the tensor first, or give the loader writable=True"
                )
        for copy in self._copies:
            batch = copy()
            if batch is not None:
                batch.check_unwritten()

    def to(self, device: torch.device | str | int, *, non_blocking: bool = False) -> Batch:
        """The batch on `device`: each base moves once. The batch itself if it is there already."""
        import torch

        self._need_torch("to")
        with torch.inference_mode(False):
            bases = [base.to(device, non_blocking=non_blocking) for base in self.bases]
            if all(new is old for new, old in zip(bases, self.bases, strict=True)):
                return self
            return self._copy(bases, self.context.to(bases[0].device))

    def pin_memory(self) -> Batch:
        """The batch in page-locked memory from torch's caching host allocator."""
        import torch

        self._need_torch("pin_memory")
        with torch.inference_mode(False):
            bases = [base.pin_memory() for base in self.bases]
        if all(new is old for new, old in zip(bases, self.bases, strict=True)):
            return self
        return self._copy(bases, self.context)

    def to_xarray(self) -> xr.Dataset:
        """A copy with names and dates: `prognostic`, `boundary`, `label`, normalized as they are.

        Dimensions are (sample, step, history, channel, lat, lon); on a grid of its own the label
        has (…, label_lat, label_lon). Dates are `input_time` and `label_time` (sample, step,
        history).
        """
        from niskin.batch_dataset import batch_dataset

        return batch_dataset(self)

    def __reduce__(self) -> tuple[Any, ...]:
        state = {
            "indices": self.indices,
            "times": self.times,
            "valid": self.valid,
            "stats": self.stats,
            "context": self.context,
            "bases": [_own_storage(base) for base in self.bases],
            "plans": [
                _BarePart(role=plan.role, channels=plan.channels, layout=plan.layout)
                for plan in self.plans
            ],
            "hist": self.hist,
            "steps": len(self),
            "writable": self.writable,
        }
        return _rebuild, (state,)

    @property
    def _held(self) -> list[tuple[Part, Array]]:
        return list(zip(self.plans, self.bases, strict=True))

    def _copy(self, bases: Sequence[Array], context: BatchContext) -> Batch:
        copy = Batch(
            indices=self.indices, times=self.times, valid=self.valid, stats=self.stats,
            context=context, bases=bases, plans=self.plans, hist=self.hist, steps=len(self),
            writable=self.writable,
        )  # fmt: skip
        self._copies.append(weakref.ref(copy))
        return copy

    def _need_torch(self, what: str) -> None:
        if _is_numpy(self.bases[0]):
            raise UsageError(f"batch.{what}: got NumPy arrays, expected torch tensors")

    def _build(self, step: int) -> Step:
        if self.writable:
            first = 3 * step
            return Step(self._view(first, 0), self._view(first + 1, 0), self._view(first + 2, 0))
        row = step * self._width
        prognostic, boundary = self._view(0, row), self._view(1, row)
        if len(self.bases) == 3:  # labels from another source, from their first row on
            return Step(prognostic, boundary, self._view(2, row))
        return Step(prognostic, boundary, self._view(0, row + self._width))

    def _view(self, number: int, first_row: int) -> Array:
        """(B, (h+1)*C, ny, nx): rows from `first_row` of each sample, channels time-major."""
        base, layout = self.bases[number], self.plans[number].layout
        channels, ny, nx = base.shape[1:]
        row = channels * ny * nx
        shape = (layout.samples, self._width * channels, ny, nx)
        strides = (layout.sample_stride * row, ny * nx, nx, 1)
        offset = first_row * layout.row_stride * row
        if _is_numpy(base):
            bytes_each = base.itemsize
            view: Array = np.ndarray(
                shape, base.dtype, base, offset * bytes_each, [s * bytes_each for s in strides]
            )
            view.flags.writeable = view.flags.writeable and self.writable
            return view
        return base.as_strided(shape, strides, base.storage_offset() + offset)


def _rebuild(state: dict[str, Any]) -> Batch:
    return Batch(**state)


def _is_numpy(base: Array) -> bool:
    return isinstance(base, np.ndarray)


def _normal_tensors(base: Array) -> AbstractContextManager[object]:
    """Tensors made inside count their versions, also within a user's `torch.inference_mode`."""
    if _is_numpy(base):
        return nullcontext()
    import torch

    return torch.inference_mode(False)


def _own_storage(base: Array) -> Array:
    """The base, copied if pickling it would take more than itself along."""
    if _is_numpy(base) or base.untyped_storage().nbytes() == base.nbytes:
        return base
    return base.clone()
