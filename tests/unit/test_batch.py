from __future__ import annotations

import copy
import gc
import pickle
import weakref
from typing import Any

import numpy as np
import pytest
import torch

from fakes import fake
from niskin.batch import Batch, Step, make_context
from niskin.errors import UsageError
from niskin.shard import TrainingShard

NY, NX = 2, 3


def shard(**options: Any) -> TrainingShard:
    options = {"hist": 1, "steps": 2} | options
    return TrainingShard(fake(), **options)


def coded(position: int, channel: int) -> float:
    return 100.0 * position + channel


def batch_of(
    windows: TrainingShard,
    indices: list[int],
    *,
    numpy: bool = False,
    shared: bool = False,
    writable: bool = False,
) -> Batch:
    """A batch whose planes all hold 100 * position + channel, and -1000 less in separate labels."""
    plans = windows.bases(indices, shared=shared, writable=writable)
    bases: list[Any] = []
    for plan in plans:
        source = plan.source
        base = np.empty((len(plan.positions), len(plan.channels), source.lat.size, source.lon.size))
        for row, position in enumerate(plan.positions):
            for channel in range(len(plan.channels)):
                base[row, channel] = coded(position, channel)
        if windows.separate_labels and plan.role == "label":
            base -= 1000
        bases.append(base.astype(np.float32) if numpy else torch.from_numpy(base).float())
    positions = windows.positions(indices)
    return Batch(
        indices=np.array(indices), times=windows.source.time[positions],
        valid=np.ones(len(indices), dtype=bool), stats={"load_s": 0.5},
        context=make_context(windows, None if numpy else "cpu"), bases=bases, plans=plans,
        hist=windows.hist, steps=windows.steps, writable=writable,
    )  # fmt: skip


def expected(windows: TrainingShard, indices: list[int]) -> list[list[list[list[float]]]]:
    """[step][tensor][sample] -> the codes along the channel axis, straight from the plan."""
    return [
        [
            [
                [
                    coded(row, channel) - (1000 if windows.separate_labels and use == 2 else 0)
                    for row in rows
                    for channel in range(len(uses.channels))
                ]
                for rows in uses.rows
            ]
            for use, uses in enumerate(step)
        ]
        for step in windows.plan(indices)
    ]


def codes(batch: Batch) -> list[list[list[list[float]]]]:
    for step in batch:
        for tensor in step:
            array = np.asarray(tensor)
            assert (array == array[:, :, :1, :1]).all()
    return [[np.asarray(tensor)[:, :, 0, 0].tolist() for tensor in step] for step in batch]


@pytest.mark.parametrize("numpy", [False, True])
@pytest.mark.parametrize("form", ["apart", "shared", "writable"])
@pytest.mark.parametrize(
    "options",
    [
        {}, {"hist": 0}, {"hist": 2, "steps": 1}, {"stride": 2}, {"hist": 0, "stride": 2},
        {"labels": fake(ny=5, name="labels")},
        {"labels": fake(name="labels"), "hist": 0, "steps": 1},
    ],
)  # fmt: skip
def test_every_tensor_is_what_the_plan_says(
    options: dict[str, Any], form: str, numpy: bool
) -> None:
    windows = shard(**options)
    if form == "shared" and not windows.flattens:
        with pytest.raises(UsageError, match="got shared=True"):
            windows.bases([3, 4, 5], shared=True)
        return
    indices = [3, 4, 5]
    batch = batch_of(
        windows, indices, numpy=numpy, shared=form == "shared", writable=form == "writable"
    )
    assert len(batch) == windows.steps
    assert codes(batch) == expected(windows, indices)
    width = windows.hist + 1
    assert tuple(batch[0].prognostic.shape) == (3, width * 2, NY, NX)
    assert tuple(batch[0].boundary.shape) == (3, width, NY, NX)
    label_ny = windows.label_source.lat.size
    assert tuple(batch[0].label.shape) == (3, width * 2, label_ny, NX)


def test_steps_are_built_once_and_indexed_from_either_end() -> None:
    batch = batch_of(shard(), [0, 2])
    assert batch[0] is batch[0]
    assert batch[-1] is batch[1]
    assert [step is batch[n] for n, step in enumerate(batch)] == [True, True]
    with pytest.raises(IndexError):
        batch[2]


def test_a_label_is_the_next_input_in_memory() -> None:
    batch = batch_of(shard(), [0, 2])
    assert batch[0].label.data_ptr() == batch[1].prognostic.data_ptr()
    assert batch[0].label.untyped_storage().data_ptr() == batch.bases[0].data_ptr()


def test_overlapping_windows_share_memory() -> None:
    batch = batch_of(shard(), [3, 4, 5], shared=True)
    assert batch.bases[0].shape[0] == 3 + 5
    first, second = batch[0].prognostic[:2]
    plane = NY * NX * 4
    assert second.data_ptr() - first.data_ptr() == 2 * plane


def test_writable_tensors_are_contiguous_and_apart() -> None:
    batch = batch_of(shard(), [0, 1], writable=True)
    pointers = {tensor.untyped_storage().data_ptr() for step in batch for tensor in step}
    assert len(pointers) == 6
    assert all(tensor.is_contiguous() for step in batch for tensor in step)
    batch[0].label.zero_()
    batch.check_unwritten()
    assert batch[1].prognostic.abs().sum() > 0


@pytest.mark.parametrize("role", ["prognostic", "boundary", "label"])
@pytest.mark.parametrize("mode", [torch.enable_grad, torch.no_grad, torch.inference_mode])
def test_in_place_writes_are_noticed(role: str, mode: Any) -> None:
    batch = batch_of(shard(), [4, 7])
    with mode():
        batch.check_unwritten()
        getattr(batch[1], role).mul_(2)
    with pytest.raises(UsageError, match=r"batch \[4, 7\]: a .* tensor was written to") as error:
        batch.check_unwritten()
    assert "writable=True" in str(error.value)


def test_reading_is_not_writing() -> None:
    batch = batch_of(shard(), [4, 7])
    step = batch[0]
    weight = torch.ones(1, requires_grad=True)
    ((step.prognostic * weight - step.label) ** 2).mean().backward()
    batch.check_unwritten()


def test_writes_to_a_moved_batch_are_noticed_through_the_first() -> None:
    batch = batch_of(shard(), [4, 7])
    moved = batch.to("meta")
    moved[0].label.zero_()
    with pytest.raises(UsageError, match="written to"):
        batch.check_unwritten()
    del moved
    gc.collect()
    batch.check_unwritten()


def test_batch_made_in_inference_mode_is_checked() -> None:
    with torch.inference_mode():
        moved = batch_of_normal_tensors().to("meta")
        assert not moved[0].label.is_inference()
        moved[0].label.zero_()
    with pytest.raises(UsageError, match="written to"):
        moved.check_unwritten()


def batch_of_normal_tensors() -> Batch:
    with torch.inference_mode(False):
        return batch_of(shard(), [4, 7])


def test_moving_moves_each_base_once_and_keeps_everything_else() -> None:
    batch = batch_of(shard(), [4, 5], shared=True)
    moved = batch.to("meta", non_blocking=True)
    assert [base.device.type for base in moved.bases] == ["meta", "meta"]
    assert moved[0].prognostic.stride() == batch[0].prognostic.stride()
    assert moved.context.label_mask.device.type == "meta"
    assert moved.times is batch.times
    assert moved.stats == {"load_s": 0.5}
    assert batch.to("cpu") is batch


def test_context_is_one_object_for_a_shard_and_device() -> None:
    windows = shard()
    first, second = batch_of(windows, [0]), batch_of(windows, [1])
    assert first.context is second.context is make_context(windows, "cpu")
    assert first.to("meta").context is second.to("meta").context is make_context(windows, "meta")
    assert make_context(windows, "meta").to("cpu") is first.context
    assert make_context(shard(), "cpu") is not first.context


def test_context_dies_with_its_shard() -> None:
    windows = shard()
    watch = weakref.ref(make_context(windows, "cpu"))
    del windows
    gc.collect()
    assert watch() is None


def test_context_holds_mask_and_coordinates_of_the_labels() -> None:
    windows = shard(labels=fake(ny=5, name="labels"))
    context = make_context(windows, "cpu")
    assert context.label_mask.shape == (2 * 2, 5, NX)
    assert context.label_mask.dtype == torch.bool
    assert context.label_mask[0].tolist() == windows.label_source.masks["thetao_0"].tolist()
    lat, lon = context.output_coords
    assert (lat.dtype, tuple(lat.shape), tuple(lon.shape)) == (torch.float64, (5,), (NX,))
    assert tuple(context.input_coords[0].shape) == (NY,)
    arrays = make_context(windows, None)
    assert not arrays.label_mask.flags.writeable


@pytest.mark.parametrize("form", ["apart", "shared", "writable"])
def test_pickle_holds_each_base_once(form: str) -> None:
    windows = TrainingShard(fake(ny=30, nx=40), hist=1, steps=2)
    batch = batch_of(windows, [3, 4], shared=form == "shared", writable=form == "writable")
    list(batch)
    data = pickle.dumps(batch)
    assert len(data) < sum(base.nbytes for base in batch.bases) + 20_000
    again = pickle.loads(data)
    assert codes(again) == codes(batch)
    assert (again.indices == batch.indices).all()
    assert (again.times == batch.times).all()
    assert again.context.label_mask.equal(batch.context.label_mask)
    assert again.writable == batch.writable
    assert codes(copy.deepcopy(batch)) == codes(batch)


def test_pickle_of_a_base_that_is_part_of_something_larger() -> None:
    windows = TrainingShard(fake(ny=30, nx=40), hist=1, steps=2)
    plans = windows.bases([0])
    source = batch_of(windows, [0])
    slab = torch.zeros((1000, *source.bases[0].shape[1:]))
    bases = [slab[7 : 7 + len(plans[0].positions)], source.bases[1]]
    batch = Batch(
        indices=source.indices, times=source.times, valid=source.valid, stats={},
        context=source.context, bases=bases, plans=plans, hist=1, steps=2,
    )  # fmt: skip
    assert batch[0].prognostic.storage_offset() == 7 * slab[0].numel()
    assert len(pickle.dumps(batch)) < 200_000


def test_pickled_step_takes_only_its_own_bytes() -> None:
    batch = batch_of(TrainingShard(fake(ny=30, nx=40), hist=1, steps=4), [3, 4, 5])
    step = batch[0]
    data = pickle.dumps(step)
    assert len(data) < sum(tensor.nbytes for tensor in step) + 5_000
    again = pickle.loads(data)
    assert isinstance(again, Step)
    assert again.label.equal(step.label)


def test_memory_lives_as_long_as_a_view_of_it() -> None:
    batch = batch_of(shard(), [0, 1])
    expected_label = batch[1].label.clone()
    watch = weakref.ref(batch)
    label = batch[1].label
    del batch
    gc.collect()
    assert watch() is None
    assert label.equal(expected_label)


def test_arrays_are_read_only_unless_writable() -> None:
    batch = batch_of(shard(), [0, 1], numpy=True)
    with pytest.raises(ValueError, match="read-only"):
        batch[0].label[:] = 0
    batch.check_unwritten()
    assert batch.device is None
    for method in (lambda: batch.to("cpu"), batch.pin_memory):
        with pytest.raises(UsageError, match="got NumPy arrays"):
            method()
    writable = batch_of(shard(), [0, 1], numpy=True, writable=True)
    writable[0].label[:] = 0
    assert codes(pickle.loads(pickle.dumps(batch))) == codes(batch)


def test_base_of_the_wrong_shape_is_refused() -> None:
    windows = shard()
    good = batch_of(windows, [0, 1])
    bad = [good.bases[0][1:], good.bases[1]]
    with pytest.raises(UsageError, match=r"prognostic base: got shape \(11, 2, 2, 3\)"):
        Batch(
            indices=good.indices, times=good.times, valid=good.valid, stats={},
            context=good.context, bases=bad, plans=good.plans, hist=1, steps=2,
        )  # fmt: skip


@pytest.mark.parametrize("form", ["apart", "shared", "writable"])
def test_delivered_bytes_count_every_tensor(form: str) -> None:
    for options in ({}, {"labels": fake(ny=5, name="labels")}):
        batch = batch_of(
            shard(**options), [0, 1], shared=form == "shared", writable=form == "writable"
        )
        assert batch.bytes_delivered == sum(t.nbytes for step in batch for t in step)


@pytest.mark.parametrize("numpy", [False, True])
def test_to_xarray(numpy: bool) -> None:
    windows = shard()
    batch = batch_of(windows, [3, 0], numpy=numpy)
    dataset = batch.to_xarray()
    assert dict(dataset.sizes) == {
        "sample": 2, "step": 2, "history": 2, "channel": 2, "boundary_channel": 1,
        "lat": 2, "lon": 3,
    }  # fmt: skip
    label = dataset.label.sel(channel="zos").isel(sample=0, step=1, history=1, lat=0, lon=0)
    assert float(label) == coded(3 + 5, 1)
    assert label.label_time.item() == windows.source.time[8]
    assert dataset.input_time.isel(sample=1, step=0, history=0).item() == windows.source.time[0]
    other = batch_of(shard(labels=fake(ny=5, name="labels")), [0], numpy=numpy).to_xarray()
    assert other.label.dims[-2:] == ("label_lat", "label_lon")
    assert other.sizes["label_lat"] == 5


def test_repr_names_the_samples() -> None:
    assert repr(batch_of(shard(), [3, 0])) == (
        "Batch(indices=[3, 0], steps=2, prognostic (12, 2, 2, 3), boundary (8, 1, 2, 3))"
    )
