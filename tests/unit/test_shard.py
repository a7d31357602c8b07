from __future__ import annotations

import pickle
import warnings
from datetime import timedelta
from typing import Any

import numpy as np
import pytest

from fakes import fake
from niskin.errors import UsageError
from niskin.shard import RowLayout, TrainingShard, can_share, resolve, unique_bytes

LENGTHS = [
    (20, 0, 1, 1, 19), (20, 0, 1, 2, 18), (20, 0, 2, 1, 18), (20, 1, 1, 1, 17), (20, 1, 1, 2, 14),
    (20, 1, 2, 1, 15), (20, 1, 2, 2, 10), (20, 2, 1, 1, 15), (10, 1, 2, 1, 5), (74, 1, 1, 1, 71),
    (2830, 1, 4, 1, 2821),
]  # fmt: skip


def shard(rows: int = 20, **options: Any) -> TrainingShard:
    options = {"hist": 1, "steps": 2, "stride": 1} | options
    return TrainingShard(fake(rows=rows), **options)


@pytest.mark.parametrize(("rows", "hist", "steps", "stride", "expected"), LENGTHS)
def test_number_of_samples(rows: int, hist: int, steps: int, stride: int, expected: int) -> None:
    windows = shard(rows, hist=hist, steps=steps, stride=stride)
    assert len(windows) == expected
    assert windows.positions([expected - 1])[0, -1] == rows - 1


def test_rows_of_each_step() -> None:
    plan = shard(hist=1, steps=2, stride=2).plan([2, 0])
    assert len(plan) == 2
    assert plan[0].input.rows == plan[0].boundary.rows == ((2, 4), (0, 2))
    assert plan[0].label.rows == plan[1].input.rows == plan[1].boundary.rows == ((6, 8), (4, 6))
    assert plan[1].label.rows == ((10, 12), (8, 10))


def test_windows_of_ten_rows() -> None:
    plan = shard(10).plan([0, 4])
    assert plan[0].input.rows[0] == (0, 1)
    assert plan[0].label.rows[0] == plan[1].input.rows[0] == (2, 3)
    assert plan[1].label.rows == ((4, 5), (8, 9))


def test_plan_counts_each_plane_once() -> None:
    plan = shard().plan([0, 1])
    assert plan.unique_rows("prognostic") == plan.unique_rows("label") == tuple(range(7))
    assert plan.unique_rows("boundary") == tuple(range(5))
    source = fake(prognostic=tuple(f"v_{k}" for k in range(77)), boundary=("a", "b", "c"))
    one = TrainingShard(source, hist=1, steps=4).plan([3])
    assert len(one.unique_rows("prognostic")) == 10
    assert len(one.unique_rows("boundary")) == 8
    assert (one.unique_planes, one.delivered_planes) == (794, 1256)


def test_plan_prints() -> None:
    windows = shard(id="train-0")
    text = str(windows.plan([2, 0]))
    assert text == "\n".join(
        [
            "batch [2, 0] of shard 'train-0', 2 steps",
            "  step 0  input     [[2, 3], [0, 1]] × 2 channels",
            "          boundary  [[2, 3], [0, 1]] × 1 channels",
            "          label     [[4, 5], [2, 3]] × 2 channels",
            "  step 1  input     [[4, 5], [2, 3]] × 2 channels",
            "          boundary  [[4, 5], [2, 3]] × 1 channels",
            "          label     [[6, 7], [4, 5]] × 2 channels",
            "  read    8 rows × 2 channels of fake",
            "  read    6 rows × 1 channels of fake",
            "  total   22 planes, delivered 40",
        ]
    )
    assert windows.plan([2, 0]) == windows.plan(np.array([2, 0]))
    assert windows.plan([2, 0]) != windows.plan([0, 2])


def test_record_without_a_sample_is_refused() -> None:
    with pytest.raises(UsageError, match="need >= 11 steps, have 10"):
        shard(10, stride=2)
    assert len(shard(11, stride=2)) == 1


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hist", -1), ("hist", 0.5), ("steps", 0), ("stride", 0), ("stride", "1"),
        ("masked_fill_value", np.nan), ("masked_fill_value", 1e39),
        ("max_gap", "six days"), ("max_gap", timedelta(0)), ("max_gap", 6),
    ],
)  # fmt: skip
def test_option_out_of_range_is_refused(option: str, value: object) -> None:
    with pytest.raises(UsageError, match=option):
        shard(**{option: value})


@pytest.mark.parametrize("index", [-1, 15])
def test_sample_out_of_range(index: int) -> None:
    windows = shard()
    assert len(windows) == 15
    with pytest.raises(IndexError, match=f"sample index {index} is out of range for 15 samples"):
        windows.positions([0, index])


def test_empty_batch_and_wrong_types_are_refused() -> None:
    with pytest.raises(UsageError, match="got no sample index"):
        shard().plan([])
    for indices in ([0.0], [True], [[0]], ["0"]):
        with pytest.raises(TypeError, match="expected a list of integers"):
            shard().positions(indices)


def test_ids() -> None:
    first, second = shard(), shard()
    assert first.id != second.id
    assert first.key == first.id
    longer = shard(id="train-0").with_steps(4)
    assert (longer.id, longer.steps, len(longer)) == ("train-0", 4, 11)


def test_windows_that_span_a_hole_do_not_exist_with_max_gap() -> None:
    source = fake(rows=12, skip=(7,))
    for gap in ("6D", "9 d", timedelta(days=6), "144h"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            windows = TrainingShard(source, hist=0, steps=1, max_gap=gap)
        full_axis = [p if p < 7 else p + 1 for p in windows.positions(range(9))[:, 0].tolist()]
        assert full_axis == [0, 1, 2, 3, 4, 5, 8, 9, 10]
        assert len(windows) == 9
    assert TrainingShard(source, hist=0, steps=1, max_gap="10D").positions([6])[0].tolist() == [
        6,
        7,
    ]


def test_max_gap_counts_neighbours_anywhere_in_the_span() -> None:
    source = fake(rows=12, skip=(7,))
    windows = TrainingShard(source, hist=0, steps=1, stride=3, max_gap="6D")
    assert windows.positions(range(len(windows)))[:, 0].tolist() == [0, 1, 2, 3, 7]


def test_max_gap_that_leaves_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match=r"max_gap: got .*, expected a window without"):
        shard(max_gap="1D")


def test_uneven_spacing_is_reported_once_with_its_dates() -> None:
    source = fake(rows=12, skip=(7,), name="uneven")
    with pytest.warns(UserWarning, match="1 of 10 steps that are not 5 days") as caught:
        TrainingShard(source, hist=0, steps=1)
    assert "10 days, 0:00:00 from 1958-02-02 12:00:00 to 1958-02-12 12:00:00" in str(
        caught[0].message
    )
    assert caught[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        TrainingShard(source, hist=0, steps=1)
        TrainingShard(fake(rows=12), hist=0, steps=1)


def test_labels_of_another_grid() -> None:
    labels = fake(ny=5, nx=4, name="fine", boundary=())
    windows = shard(labels=labels)
    assert windows.separate_labels
    assert windows.label_source is labels
    assert windows.rows_per_sample == 4
    assert shard().rows_per_sample == 6
    plan = windows.plan([0])
    assert plan[0].label.source == "fine"
    assert plan.unique_rows("prognostic") == (0, 1, 2, 3)
    assert plan.unique_rows("label") == (2, 3, 4, 5)


def test_labels_that_are_the_source_are_no_separate_labels() -> None:
    source = fake()
    assert not TrainingShard(source, source).separate_labels


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rows": 19}, "different time slices: got 19, expected 20 dates"),
        ({"rows": 21, "skip": (3,)}, "different time slices: date 3: got 1958-01-23"),
        ({"calendar": "noleap"}, "calendar: got noleap, expected julian"),
        ({"prognostic": ("zos", "thetao_0")}, "labels: got"),
    ],
)
def test_labels_that_do_not_match_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        shard(labels=fake(**options))


def test_bases_hold_every_row_of_a_sample_once() -> None:
    prognostic, boundary = shard(stride=2).bases([2, 0])
    assert (prognostic.role, prognostic.channels) == ("prognostic", ("thetao_0", "zos"))
    assert prognostic.layout == RowLayout(samples=2, rows=6, sample_stride=6, row_stride=1)
    assert prognostic.positions.tolist() == [2, 4, 6, 8, 10, 12, 0, 2, 4, 6, 8, 10]
    assert (boundary.role, boundary.channels) == ("boundary", ("hfds",))
    assert boundary.positions.tolist() == [2, 4, 6, 8, 0, 2, 4, 6]
    assert boundary.layout.base_rows == 8


def test_shared_bases_overlap() -> None:
    prognostic, boundary = shard().bases([3, 4, 5], shared=True)
    assert prognostic.layout == RowLayout(samples=3, rows=6, sample_stride=1, row_stride=1)
    assert prognostic.positions.tolist() == list(range(3, 11))
    assert boundary.positions.tolist() == list(range(3, 9))
    assert prognostic.layout.base_rows == 8


def test_shared_bases_with_a_stride_and_no_history() -> None:
    windows = shard(hist=0, steps=2, stride=2)
    (prognostic, _) = windows.bases([1, 2, 3], shared=True)
    assert prognostic.layout == RowLayout(samples=3, rows=3, sample_stride=1, row_stride=2)
    assert prognostic.positions.tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_separate_labels_have_a_base_of_their_own() -> None:
    windows = shard(labels=fake(name="other", ny=5))
    prognostic, boundary, label = windows.bases([1])
    assert prognostic.positions.tolist() == boundary.positions.tolist() == [1, 2, 3, 4]
    assert (label.role, label.positions.tolist()) == ("label", [3, 4, 5, 6])
    assert label.source is windows.label_source
    shared = windows.bases([1, 2], shared=True)
    assert [base.positions.tolist() for base in shared] == [[1, 2, 3, 4, 5]] * 2 + [[3, 4, 5, 6, 7]]


def test_writable_bases_are_one_for_each_tensor() -> None:
    bases = shard().bases([0, 2], writable=True)
    assert [base.role for base in bases] == ["prognostic", "boundary", "label"] * 2
    assert [base.positions.tolist() for base in bases] == [
        [0, 1, 2, 3], [0, 1, 2, 3], [2, 3, 4, 5], [2, 3, 4, 5], [2, 3, 4, 5], [4, 5, 6, 7],
    ]  # fmt: skip


def test_bases_that_cannot_be_shared_are_refused() -> None:
    for windows, indices in (
        (shard(), [0, 2]), (shard(), [1, 0]), (shard(stride=2), [0, 1])
    ):  # fmt: skip
        with pytest.raises(UsageError, match="got shared=True"):
            windows.bases(indices, shared=True)
    with pytest.raises(UsageError, match="shared and writable"):
        shard().bases([0, 1], shared=True, writable=True)


def test_unique_bytes() -> None:
    plane = 2 * 3 * 4
    assert unique_bytes(shard().bases([0, 1])) == (7 * 2 + 5 * 1) * plane
    assert unique_bytes(shard().bases([0, 1], writable=True)) == (7 * 2 + 5 * 1) * plane


@pytest.mark.parametrize(
    ("schedule", "options", "expected"),
    [
        ([[0, 1, 2], [7, 8, 9]], {}, True),
        ([[0, 1, 2], [9]], {}, True),
        ([[0, 1, 2], [9, 8]], {}, False),
        ([[0, 1, 3]], {}, False),
        ([[0], [1]], {}, False),
        ([], {}, False),
        ([[0, 1, 2], []], {}, False),
        ([[13, 14, 15]], {}, False),
        ([[0, 1, 2]], {"stride": 2}, False),
        ([[0, 1, 2]], {"hist": 0, "stride": 2}, True),
        ([[0, 1, 2], [3]], {"hist": 0, "stride": 2}, False),
        ([[0, 1]], {"hist": 0, "stride": 2}, False),
    ],
)
def test_sharing_is_decided_for_the_whole_schedule(
    schedule: list[list[int]], options: dict[str, Any], expected: bool
) -> None:
    assert can_share([shard(**options)], schedule) is expected


def test_sharing_over_several_shards() -> None:
    shards = [shard(), shard()]
    assert can_share(shards, [[13, 14], [15, 16]])
    assert not can_share(shards, [[14, 15]])
    assert not can_share([shard(), shard(stride=2)], [[0, 1], [15, 16]])
    assert can_share([shard(), shard(stride=2)], [[0, 1]])


def test_sharing_needs_neighbouring_rows_not_just_neighbouring_samples() -> None:
    source = fake(rows=12, skip=(7,))
    windows = TrainingShard(source, hist=0, steps=1, max_gap="6D")
    assert can_share([windows], [[4, 5], [6, 7]])
    assert not can_share([windows], [[5, 6]])


def test_global_indices_find_their_shard() -> None:
    shards = [shard(id="a"), shard(12, id="b")]
    owner, local = resolve(shards, [15, 21])
    assert owner is shards[1]
    assert local.tolist() == [0, 6]
    assert resolve(shards, np.array([14]))[0] is shards[0]


def test_batch_that_mixes_shards_is_refused() -> None:
    shards = [shard(id="a"), shard(12, id="b")]
    with pytest.raises(UsageError, match=r"batch \[15, 3\]: got samples of shards 'b' and 'a'"):
        resolve(shards, [15, 3])


@pytest.mark.parametrize("index", [-1, 22])
def test_global_index_out_of_range(index: int) -> None:
    with pytest.raises(IndexError, match=f"sample index {index} is out of range for 22 samples"):
        resolve([shard(), shard(12)], [0, index])


def test_resolving_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="got no sample index"):
        resolve([shard()], [])


def test_shard_pickles() -> None:
    windows = shard(id="train-0")
    again = pickle.loads(pickle.dumps(windows))
    assert (again.id, len(again)) == ("train-0", 15)


def test_sharing_of_a_long_schedule_is_decided() -> None:
    windows = shard(200_020)
    schedule = [list(range(at, at + 8)) for at in range(0, 200_000, 8)] * 5
    assert can_share([windows], schedule)
