"""Windows, bases and sharing against their definitions, for generated sizes and schedules."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fakes import fake
from niskin.batch import Batch, make_context
from niskin.errors import UsageError
from niskin.shard import TrainingShard, can_share

ROWS = 40
geometries = st.fixed_dictionaries(
    {"hist": st.integers(0, 3), "steps": st.integers(1, 4), "stride": st.integers(1, 2)}
)
skips = st.sets(st.integers(1, ROWS - 2), max_size=2).map(tuple)


def shard_of(geometry: dict[str, int], **options: Any) -> TrainingShard:
    return TrainingShard(fake(rows=ROWS, ny=1, nx=2), **geometry, **options)


@given(geometries)
def test_length_is_tight(geometry: dict[str, int]) -> None:
    shard = shard_of(geometry)
    h, s, d = geometry["hist"], geometry["steps"], geometry["stride"]
    assert len(shard) == ROWS - s * (h + 1) * d - h * d
    assert shard.positions([len(shard) - 1]).max() == ROWS - 1


@given(geometries, st.data())
def test_each_steps_rows_follow_the_definition(geometry: dict[str, int], data: Any) -> None:
    shard = shard_of(geometry)
    h, d = geometry["hist"], geometry["stride"]
    indices = data.draw(st.lists(st.integers(0, len(shard) - 1), min_size=1, max_size=4))
    for step, uses in enumerate(shard.plan(indices)):
        for sample, index in enumerate(indices):
            first = index + step * (h + 1) * d
            window = tuple(first + d * k for k in range(2 * h + 2))
            assert uses.input.rows[sample] == uses.boundary.rows[sample] == window[: h + 1]
            assert uses.label.rows[sample] == window[h + 1 :]


@given(st.integers(0, 2), st.integers(1, 2), st.integers(1, 2), skips)
def test_windows_with_max_gap_are_those_without_a_hole(
    hist: int, steps: int, stride: int, skip: tuple[int, ...]
) -> None:
    source = fake(rows=ROWS, skip=skip)
    span = stride * ((steps + 1) * (hist + 1) - 1)
    kept = [k for k in range(ROWS) if k not in skip]
    expected = [k for k in range(len(kept) - span) if kept[k + span] - kept[k] == span]
    geometry: dict[str, Any] = {"hist": hist, "steps": steps, "stride": stride, "max_gap": "5D"}
    if not expected:
        with pytest.raises(UsageError, match="max_gap"):
            TrainingShard(source, **geometry)
        return
    shard = TrainingShard(source, **geometry)
    assert shard.positions(range(len(shard)))[:, 0].tolist() == expected


@given(geometries, st.sampled_from(["apart", "shared", "writable"]), st.booleans(), st.data())
def test_views_of_the_bases_are_the_rows_of_the_plan(
    geometry: dict[str, int], form: str, separate: bool, data: Any
) -> None:
    labels = fake(rows=ROWS, ny=1, nx=2, name="labels") if separate else None
    shard = shard_of(geometry, labels=labels)
    if form == "shared" and shard.flattens:
        first = data.draw(st.integers(0, len(shard) - 1))
        indices = list(range(first, min(first + 4, len(shard))))
    else:
        form = "apart" if form == "shared" else form
        indices = data.draw(st.lists(st.integers(0, len(shard) - 1), min_size=1, max_size=4))
    plans = shard.bases(indices, shared=form == "shared", writable=form == "writable")
    bases = []
    for plan in plans:
        base = np.empty((plan.layout.base_rows, len(plan.channels), 1, 2), dtype=np.float32)
        base[:] = plan.positions[:, None, None, None]
        base += np.arange(len(plan.channels), dtype=np.float32)[:, None, None] * 1000
        bases.append(base)
    batch = Batch(
        indices=np.array(indices), times=shard.source.time[shard.positions(indices)],
        valid=np.ones(len(indices), dtype=bool), stats={}, context=make_context(shard, None),
        bases=bases, plans=plans, hist=shard.hist, steps=shard.steps, writable=form == "writable",
    )  # fmt: skip
    for step, uses in zip(batch, shard.plan(indices), strict=True):
        for tensor, use in zip(step, uses, strict=True):
            channels = np.arange(len(use.channels)) * 1000
            expected = (np.array(use.rows)[:, :, None] + channels).reshape(len(indices), -1)
            assert (tensor == expected[:, :, None, None]).all()
    assert batch.bytes_delivered == sum(tensor.nbytes for step in batch for tensor in step)


@given(
    geometries, st.lists(st.tuples(st.integers(0, 12), st.integers(1, 4)), max_size=4), st.data()
)
def test_sharing_is_what_its_definition_says(
    geometry: dict[str, int], runs: list[tuple[int, int]], data: Any
) -> None:
    shard = shard_of(geometry | {"steps": 1})
    schedule = [list(range(first, first + size)) for first, size in runs]
    if schedule and data.draw(st.booleans()):
        data.draw(st.sampled_from(schedule)).reverse()
    neighbours = all(b - a == 1 for batch in schedule for a, b in pairwise(batch))
    in_range = all(batch[-1] < len(shard) and batch[0] < len(shard) for batch in schedule)
    d = shard.stride
    saves = any(len(batch) > d for batch in schedule)
    no_holes = all(len(batch) >= d for batch in schedule)
    expected = shard.flattens and neighbours and in_range and saves and no_holes
    assert can_share([shard], schedule) == expected
    if expected:
        for batch in schedule:
            for plan in shard.bases(batch, shared=True):
                rows = {row for use in shard.plan(batch) for u in use for s in u.rows for row in s}
                assert set(plan.positions.tolist()) <= rows
