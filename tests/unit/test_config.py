from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from niskin.config import CpuLoading, NativeLoading, TrainConfig
from niskin.config_file import load_config, parse_config
from niskin.errors import UsageError

EXAMPLE = Path(__file__).parents[2] / "examples" / "train.yaml"


def source(**changes: Any) -> dict[str, Any]:
    return {
        "data_location": "OM4.zarr",
        "data_means_location": "OM4_means.zarr",
        "data_stds_location": "OM4_stds.zarr",
        "train_time": {"start": "1975-01-03", "end": "2013-10-05"},
        "val_time": {"start": "2013-10-05", "end": "2014-10-05"},
    } | changes


def config(**changes: Any) -> TrainConfig:
    data = {"sources": [source()]} | changes.pop("data", {})
    return parse_config({"data": data, **changes})


def refusal(**changes: Any) -> str:
    with pytest.raises(UsageError) as raised:
        config(**changes)
    return str(raised.value)


def test_the_example_loads() -> None:
    example = load_config(EXAMPLE)
    assert example.data.sources[0].train_time.start == "1958"
    assert example.learning_rate == 1e-3
    assert [example.steps_in(e) for e in (1, 2, 3, 4)] == [1, 1, 2, 2]


def test_defaults_are_those_of_the_published_keys() -> None:
    c = config()
    assert c.data.loading == NativeLoading()
    assert (c.batch_size, c.steps, c.step_transition, c.data_stride) == (2, (4,), (), (1,))
    assert (c.data.hist, c.data.normalize_before_mask, c.data.masked_fill_value) == (1, True, 0.0)
    assert c.data.inference_loading.num_workers == 4
    assert c.data.sources[0].prognostic_vars_key == "thermo_dynamic_all"


@pytest.mark.parametrize(
    ("data", "where", "near"),
    [
        ({"mask_fil_value": 0}, "data", "masked_fill_value"),
        ({"sources": [source(trian_time=1)]}, "data.sources[0]", "train_time"),
        ({"loading": {"type": "native", "prefetch_batchs": 3}}, "data.loading", "prefetch_batches"),
    ],
)
def test_an_unknown_key_is_refused_with_the_nearest_name(
    data: dict[str, Any], where: str, near: str
) -> None:
    message = refusal(data=data)
    assert where in message
    assert "unknown key" in message
    assert near in message


def test_an_unknown_top_level_key_is_refused() -> None:
    assert "batch_size" in refusal(batchsize=2)


@pytest.mark.parametrize(
    ("changes", "where"),
    [
        ({"data": {"hist": "1"}}, "data.hist"),
        ({"data": {"hist": -1}}, "data.hist"),
        ({"batch_size": 0}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"data_stride": [0]}, "data_stride[0]"),
        ({"steps": []}, "steps"),
        ({"epochs": 1.5}, "epochs"),
        ({"device": "tpu"}, "device"),
        ({"data": {"sources": []}}, "data.sources"),
        ({"data": {"loader_version": "llc"}}, "data.loader_version"),
        ({"data": {"concurrent_compute": True}}, "data.concurrent_compute"),
        ({"data": {"loading": {"prefetch_batches": 0}}}, "data.loading"),
        ({"data": {"loading": {"prefetch_to_device": True}}}, "data.loading"),
    ],
)
def test_a_value_that_does_not_fit_is_refused_at_its_place(
    changes: dict[str, Any], where: str
) -> None:
    assert where in refusal(**changes)


def test_every_problem_has_a_line() -> None:
    message = refusal(data={"hist": "1"}, batch_size=0)
    assert message.startswith("configuration: 2 problems\n")
    assert len(message.splitlines()) == 3


def test_loading_defaults_to_native_and_rust_is_its_old_name() -> None:
    assert config(data={"loading": {"prefetch_batches": 3}}).data.loading == NativeLoading(
        prefetch_batches=3
    )
    assert config(data={"loading": {"type": "rust"}}).data.loading == NativeLoading()
    cpu = config(data={"loading": {"type": "cpu", "num_workers": 0}}).data.loading
    assert cpu == CpuLoading(type="cpu", num_workers=0)


@pytest.mark.parametrize("kind", ["gpu", "llc"])
def test_loading_types_of_other_systems_are_refused_by_name(kind: str) -> None:
    assert repr(kind) in refusal(data={"loading": {"type": kind}})


def test_llc_sources_are_refused_by_name() -> None:
    assert "llc" in refusal(data={"sources": [source(type="llc")]})


@pytest.mark.parametrize(
    ("train", "val", "overlap"),
    [
        (("1975-01-03", "2013-10-05"), ("2013-10-05", "2014-10-05"), False),
        (("1975-01-03", "2013-10-06"), ("2013-10-05", "2014-10-05"), True),
        (("1975-01-03", "2013-10-05"), ("1980-01-01", "1981-01-01"), True),
        (("1990", "1991"), ("1992", "1993"), False),
        (("1990", "1992-02"), ("1992-02-10", "1993"), True),
        (("2014", "2015"), ("1990", "1991"), False),
        (("1899-03-01", "1900-02-29"), ("1900-02-29", "1901"), False),
    ],
)
def test_training_and_validation_may_touch_but_not_overlap(
    train: tuple[str, str], val: tuple[str, str], overlap: bool
) -> None:
    given = source(
        train_time=dict(zip(("start", "end"), train, strict=True)),
        val_time=dict(zip(("start", "end"), val, strict=True)),
    )
    if overlap:
        assert "Training time range" in refusal(data={"sources": [given]})
    else:
        config(data={"sources": [given]})


@pytest.mark.parametrize("date", ["1975-13-01", "75-01-01", "1975-01-32", "yesterday", ""])
def test_a_date_that_is_none_is_refused(date: str) -> None:
    given = source(train_time={"start": date, "end": "2013"})
    assert "train_time.start" in refusal(data={"sources": [given]})


def test_a_reversed_range_is_refused() -> None:
    given = source(train_time={"start": "2013", "end": "1975"})
    assert "lies after" in refusal(data={"sources": [given]})


def test_locations_are_local() -> None:
    c = config(experiment={"data_root": "/data"})
    assert c.path(c.data.sources[0].data_location) == Path("/data/OM4.zarr")
    local = config(data={"sources": [source(data_location={"type": "local", "path": "/a/b"})]})
    assert local.path(local.data.sources[0].data_location) == Path("/a/b")
    for remote in ("s3://bucket/OM4.zarr", {"type": "s3", "bucket": "b", "path": "p"}):
        assert "only local data" in refusal(data={"sources": [source(data_location=remote)]})
    relative = {"type": "local", "path": "a/b"}
    assert "absolute" in refusal(data={"sources": [source(data_location=relative)]})


def test_explicit_channel_lists_are_accepted() -> None:
    c = config(data={"sources": [source(prognostic_vars_key=["so_1", "zos"])]})
    assert c.data.sources[0].prognostic_vars_key == ("so_1", "zos")


def test_sources_must_have_one_layout() -> None:
    other = source(boundary_vars_key="hfds")
    assert "same data layout" in refusal(data={"sources": [source(), other]})


def test_at_most_one_inference_range_and_only_on_the_first_source() -> None:
    year = {"start": "2015", "end": "2015"}
    config(data={"sources": [source(inference_times=[year])]})
    assert "inference_times" in refusal(data={"sources": [source(inference_times=[year, year])]})
    late = [source(), source(inference_times=[year])]
    assert "inference_times" in refusal(data={"sources": late})


def test_steps_follow_the_number_of_transitions_passed() -> None:
    c = config(steps=[1, 2, 4], step_transition=[3, 5])
    assert [c.steps_in(e) for e in range(1, 7)] == [1, 1, 2, 2, 4, 4]
    assert "step_transition" in refusal(steps=[1, 2])
    assert "increase" in refusal(steps=[1, 2, 4], step_transition=[5, 3])


def test_debug_stops_after_four_batches() -> None:
    assert config(debug=True).batch_limit == 4
    assert config(max_batches=9).batch_limit == 9
    assert config().batch_limit is None


def test_a_key_given_twice_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "twice.yaml"
    path.write_text("epochs: 3\nepochs: 4\n")
    with pytest.raises(UsageError, match="given twice"):
        load_config(path)


def test_a_missing_file_and_bad_yaml_are_usage_errors(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="No such file"):
        load_config(tmp_path / "absent.yaml")
    (tmp_path / "bad.yaml").write_text("data: [")
    with pytest.raises(UsageError, match="not YAML"):
        load_config(tmp_path / "bad.yaml")
    (tmp_path / "empty.yaml").write_text("")
    with pytest.raises(UsageError):
        load_config(tmp_path / "empty.yaml")


def test_the_schema_forbids_unknown_keys_and_lists_the_loading_types() -> None:
    schema = TrainConfig.model_json_schema()
    assert schema["additionalProperties"] is False
    loading = schema["$defs"]["Data"]["properties"]["loading"]
    assert set(loading["discriminator"]["mapping"]) == {"native", "cpu"}


def test_a_config_survives_json() -> None:
    c = config(steps=[1, 2], step_transition=[2])
    assert parse_config(c.model_dump(mode="json")) == c


def test_dates_and_numbers_in_yaml_are_read_as_they_are_meant(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(
        "learning_rate: 1e-3\n"
        "data: {sources: [{data_location: a, data_means_location: b, data_stds_location: c,\n"
        "  train_time: {start: 1900-02-29, end: 1950}, val_time: {start: 1951-02, end: 1952}}]}\n"
    )
    read = load_config(path)
    (only,) = read.data.sources
    assert (only.train_time.start, only.train_time.end) == ("1900-02-29", "1950")
    assert only.val_time.start == "1951-02"
    assert read.learning_rate == 1e-3
