from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import cftime
import numpy as np
import pytest
import torch

from niskin import sample_store
from niskin.demo.comparison import compare_bits
from niskin.demo.forecast import Forecasts, SeasonalCycle, forecast
from niskin.demo.picture import LossCurve, draw
from niskin.demo.settings import FULL, QUICK, DemoSettings
from niskin.demo.store import ensure_store
from niskin.train.model import OceanNet


class Step(NamedTuple):
    prognostic: torch.Tensor
    boundary: torch.Tensor
    label: torch.Tensor


class Context(NamedTuple):
    label_mask: torch.Tensor


class FakeBatch:
    def __init__(self, steps: list[Step], times: np.ndarray, mask: torch.Tensor) -> None:
        self.steps, self.times, self.context = steps, times, Context(mask)

    def __iter__(self) -> Any:
        return iter(self.steps)


def dates(first: int, count: int) -> np.ndarray:
    """Pentads, the first one `first` pentads after 3 January 1961 (no leap year)."""
    start = cftime.DatetimeJulian(1961, 1, 3, 12)
    return np.array([start + timedelta(days=5 * (first + i)) for i in range(count)], dtype=object)


class FakeSource:
    """One channel on a 2 x 2 grid, on the equator: the value is the row, cell (0, 0) is land."""

    prognostic = ("thetao_0",)
    lat = np.zeros(2)
    lon = np.array([90.0, 270.0])
    masks = {"thetao_0": np.array([[False, True], [True, True]])}  # noqa: RUF012

    def __init__(self, rows: int) -> None:
        self.time = dates(0, rows)

    def statistics(self, channels: Any) -> tuple[np.ndarray, np.ndarray]:
        return np.array([10.0]), np.array([2.0])

    def read(self, rows: np.ndarray, channels: Any) -> np.ndarray:
        values = np.broadcast_to(rows[:, None, None, None], (len(rows), 1, 2, 2)).astype("f4")
        return np.where(self.masks["thetao_0"], values, np.float32("nan"))


def states(*values: float) -> torch.Tensor:
    """(1, len(values), 2, 2), one value per row."""
    return torch.tensor(values).reshape(1, -1, 1, 1).expand(1, -1, 2, 2).clone()


def batch(change: float) -> FakeBatch:
    """Normalized states that rise by `change` each row, rows 0 to 5, two steps of history 1."""
    mask = torch.tensor([[False, True], [True, True]]).expand(2, 2, 2)
    zero = torch.zeros(1, 2, 2, 2)
    rows = [change * k for k in range(6)]
    steps = [
        Step(states(*rows[0:2]), zero, states(*rows[2:4])),
        Step(states(*rows[2:4]), zero, states(*rows[4:6])),
    ]
    return FakeBatch(steps, dates(0, 6)[None], mask)


def test_scores_are_in_degrees_and_count_from_the_last_known_state() -> None:
    net = OceanNet(prognostic=1, boundary=1, hist=1, widths=(2,))  # fresh: persistence
    source = FakeSource(rows=30)
    found = forecast(
        net, [batch(change=0.5)], source, SeasonalCycle(source, "thetao_0"),
        channel="thetao_0", show=0,
    )  # fmt: skip
    # std 2: each row is 1 °C warmer than the one before.
    assert found.rmse["persistence"] == (1.0, 2.0, 3.0, 4.0)
    assert found.rmse["model"] == found.rmse["persistence"]
    assert found.lead_days == (5.0, 10.0, 15.0, 20.0)
    assert not found.beaten
    assert np.isnan(found.truth[0, 0])
    assert found.truth[0, 1] == 10.0 + 5.0
    assert found.persistence[0, 1] == 10.0 + 1.0


def test_the_season_is_the_mean_over_training_rows_near_the_day() -> None:
    source = FakeSource(rows=10)
    season = SeasonalCycle(source, "thetao_0")
    assert season([source.time[4]])[0, 0, 1] == 4.0  # rows 2 to 6: ten days on either side
    assert season([source.time[0]])[0, 0, 1] == 1.0  # rows 0 to 2


def test_the_season_goes_round_the_turn_of_the_year() -> None:
    source = FakeSource(rows=73)
    found = SeasonalCycle(source, "thetao_0")([source.time[0]])
    assert found[0, 0, 1] == np.float32((0 + 1 + 2 + 71 + 72) / 5)


def test_loaders_are_compared_bit_for_bit() -> None:
    same = compare_bits([batch(0.5), batch(1.0)], [batch(0.5), batch(1.0)])
    assert (same.batches, same.tensors, same.values, same.difference) == (2, 12, 12 * 8, None)
    other = batch(0.5)
    other.steps[1].label[0, 0, 0, 0] += 1e-6
    found = compare_bits([batch(0.5)], [other])
    assert found.difference == "batch 0, step 1, label"


def test_minus_zero_is_not_zero_and_nan_is_itself() -> None:
    ours, theirs = batch(0.0), batch(0.0)
    ours.steps[0].label[...] = float("nan")
    theirs.steps[0].label[...] = float("nan")
    assert compare_bits([ours], [theirs]).difference is None
    theirs.steps[0].boundary[0, 0, 0, 0] = -0.0
    assert compare_bits([ours], [theirs]).difference == "batch 0, step 0, boundary"


@pytest.mark.parametrize("settings", [FULL, QUICK])
def test_the_held_out_year_is_not_trained_on(settings: DemoSettings) -> None:
    config = settings.config(Path("store"), Path("out"))
    (source,) = config.data.sources
    assert source.val_time.start == str(settings.held_out)
    assert source.train_time.end == str(settings.held_out - 1)


def test_the_store_is_built_once_and_again_for_other_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[dict[str, Any]] = []

    def build(out: Path, **options: Any) -> None:
        out.mkdir(parents=True, exist_ok=True)
        built.append(options)

    monkeypatch.setattr(sample_store, "build", build)
    store = tmp_path / "store"
    assert ensure_store(store, QUICK)
    assert not ensure_store(store, QUICK)
    assert ensure_store(store, FULL)
    assert [b["resolution"] for b in built] == [QUICK.resolution, FULL.resolution]
    assert json.loads((store / "demo-store.json").read_text())["years"] == FULL.years


def test_a_picture_is_drawn(tmp_path: Path) -> None:
    lat, lon = np.linspace(-80, 80, 9), np.arange(0.5, 360, 30)
    field = np.broadcast_to(25 * np.cos(np.deg2rad(lat))[:, None], (9, 12)).astype("f4").copy()
    field[4, 3:5] = np.nan
    forecasts = Forecasts(
        starts=2, lead_days=(5.0, 10.0),
        rmse={"model": (0.1, 0.2), "persistence": (0.2, 0.4), "climatology": (0.5, 0.5)},
        start=dates(0, 1)[0], date=dates(2, 1)[0],
        shown=field + 0.1, truth=field, persistence=field - 0.3,
    )  # fmt: skip
    assert forecasts.beaten
    curves = [
        LossCurve(steps=1, first_batch=1, training=[1.0, 0.5, 0.3], validation=[(3, 0.4)]),
        LossCurve(steps=2, first_batch=4, training=[0.9], validation=[(4, 0.3)]),
    ]
    path = tmp_path / "demo.png"
    draw(path, forecasts, curves, lat=lat, lon=lon, title="A title")
    assert path.read_bytes().startswith(b"\x89PNG")
