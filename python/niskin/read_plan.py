"""The read plan of a batch as a printable value: which rows each rollout step uses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from niskin.bases import Role

__all__ = ["ReadPlan", "StepPlan", "Use"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Use:
    """One tensor of one step: `rows[b][t]` is the position on the time axis of `source`."""

    source: str
    channels: tuple[str, ...]
    rows: tuple[tuple[int, ...], ...]

    @property
    def planes(self) -> int:
        """(row, channel) planes of the tensor."""
        return sum(map(len, self.rows)) * len(self.channels)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepPlan:
    """The three tensors of one rollout step."""

    input: Use
    boundary: Use
    label: Use

    def __iter__(self) -> Iterator[Use]:
        return iter((self.input, self.boundary, self.label))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPlan:
    """What a batch of `indices` of shard `shard` needs, step by step. Compares by value."""

    shard: str
    indices: tuple[int, ...]
    steps: tuple[StepPlan, ...]

    def __len__(self) -> int:
        return len(self.steps)

    def __getitem__(self, step: int) -> StepPlan:
        return self.steps[step]

    def __iter__(self) -> Iterator[StepPlan]:
        return iter(self.steps)

    @property
    def delivered_planes(self) -> int:
        """(row, channel) planes of all tensors, as the consumer sees them."""
        return sum(use.planes for step in self.steps for use in step)

    @property
    def unique_planes(self) -> int:
        """(row, channel) planes with each one counted once: what must be read."""
        return sum(len(rows) * len(channels) for (_, channels), rows in self._unique().items())

    def unique_rows(self, role: Role) -> tuple[int, ...]:
        """Sorted positions that the reads of a role cover.

        "prognostic" and "label" are equal, inputs and labels together, unless labels come from
        another source.
        """
        step = self.steps[0]
        use = {"prognostic": step.input, "boundary": step.boundary, "label": step.label}[role]
        return tuple(sorted(self._unique()[use.source, use.channels]))

    def _unique(self) -> dict[tuple[str, tuple[str, ...]], set[int]]:
        found: dict[tuple[str, tuple[str, ...]], set[int]] = {}
        for step in self.steps:
            for use in step:
                rows = found.setdefault((use.source, use.channels), set())
                rows.update(row for sample in use.rows for row in sample)
        return found

    def __str__(self) -> str:
        lines = [f"batch {list(self.indices)} of shard {self.shard!r}, {len(self.steps)} steps"]
        for number, step in enumerate(self.steps):
            for name, use in zip(("input", "boundary", "label"), step, strict=True):
                head = f"step {number}" if name == "input" else ""
                samples = [list(sample) for sample in use.rows]
                lines.append(f"  {head:<8}{name:<10}{samples} × {len(use.channels)} channels")
        for (source, channels), rows in self._unique().items():
            lines.append(f"  read    {len(rows)} rows × {len(channels)} channels of {source}")
        lines.append(f"  total   {self.unique_planes} planes, delivered {self.delivered_planes}")
        return "\n".join(lines)
