"""Forecasts of sea surface temperature on the held-out year, scored against simple rivals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from niskin.batch import Batch
from niskin.canonical import CanonicalDataset
from niskin.errors import UsageError
from niskin.train.model import OceanNet
from niskin.train.rollout import roll_out

__all__ = ["Forecasts", "SeasonalCycle", "forecast"]

Fields = NDArray[np.float32]
_WINDOW_DAYS = 10


class SeasonalCycle:
    """Day-of-year climatology of one channel: the mean over training rows near that day.

    Rows within ten days on either side count: three years of pentads alone make a noisy mean.
    """

    def __init__(self, training: CanonicalDataset, channel: str) -> None:
        rows = np.arange(len(training.time))
        self._values = training.read(rows, (channel,))[:, 0]
        self._days = _day_of_year(training.time)

    def __call__(self, dates: Iterable[Any]) -> Fields:
        """Values (date, lat, lon) for cftime dates, in the channel's unit."""
        return np.stack([self._mean(day) for day in _day_of_year(dates)])

    def _mean(self, day: int) -> Fields:
        apart = np.abs(self._days - day)
        near = np.minimum(apart, 365 - apart) <= _WINDOW_DAYS
        mean: Fields = self._values[near].mean(axis=0, dtype=np.float32)
        return mean


def _day_of_year(dates: Iterable[Any]) -> NDArray[np.int64]:
    return np.array([date.dayofyr for date in dates], dtype=np.int64)


@dataclass(frozen=True, kw_only=True)
class Forecasts:
    """Scores by lead, and one forecast to look at. Temperatures are °C; land is NaN.

    `rmse` maps "model", "persistence" and "climatology" to one value per lead: the root of the mean
    square over starts and wet cells, weighted by cell area.
    """

    starts: int
    lead_days: tuple[float, ...]
    rmse: dict[str, tuple[float, ...]]
    start: Any  # cftime date of the last state that the shown forecast knows
    date: Any  # cftime date that it is for
    shown: Fields  # forecast of the last lead, (lat, lon)
    truth: Fields
    persistence: Fields

    def mean_rmse(self, name: str) -> float:
        """Root mean square error over all leads."""
        return float(np.sqrt(np.mean(np.square(self.rmse[name]))))

    @property
    def beaten(self) -> bool:
        """True if the model has the smallest error over all leads."""
        model = self.mean_rmse("model")
        return all(model < self.mean_rmse(name) for name in self.rmse if name != "model")


def forecast(
    model: OceanNet,
    batches: Iterable[Batch],
    source: CanonicalDataset,
    season: SeasonalCycle,
    *,
    channel: str,
    show: int,
) -> Forecasts:
    """Rolls the model over every batch's steps and scores `channel` at each row of each step.

    `show` is the number of the start whose last lead is kept to look at.

    All states after the first input come from the model itself; it is given the boundary of each
    step.
    """
    number = source.prognostic.index(channel)
    mean, std = (float(np.float32(s[0])) for s in source.statistics((channel,)))
    wet = source.masks[channel]
    weights = np.cos(np.deg2rad(source.lat))[:, None] * wet
    squares: dict[str, Any] = {"model": 0.0, "persistence": 0.0, "climatology": 0.0}
    lead_days: Any = 0.0
    starts = 0
    shown: tuple[Any, ...] | None = None
    rows, channels = model.hist + 1, model.prognostic

    def celsius(states: torch.Tensor) -> Fields:
        """(B, rows*C, lat, lon) normalized → (B, rows, lat, lon) in °C."""
        picked = states[:, number::channels].cpu().numpy()
        return np.where(wet, picked * np.float32(std) + np.float32(mean), np.float32(np.nan))

    model.eval()
    for batch in batches:
        steps = list(batch)
        with torch.inference_mode():
            states = list(roll_out(model, steps, batch.context.label_mask))
        predicted = np.concatenate([celsius(state) for state in states], axis=1)
        truth = np.concatenate([celsius(step.label) for step in steps], axis=1)
        known = celsius(steps[0].prognostic)[:, -1:]
        dates = batch.times[:, rows:]
        usual = np.stack([season(row) for row in dates])
        rivals = {"model": predicted, "persistence": known, "climatology": usual}
        for name, field in rivals.items():
            error = np.where(wet, field - truth, 0.0)
            squares[name] = squares[name] + (error**2 * weights).sum(axis=(0, 2, 3))
        begun = batch.times[:, rows - 1]
        lead_days = lead_days + sum(_days(dates[b] - begun[b]) for b in range(len(begun)))
        starts += len(begun)
        if starts - len(begun) <= show < starts:
            b = show - starts
            shown = (begun[b], dates[b, -1], predicted[b, -1], truth[b, -1], known[b, 0])
    if shown is None:
        raise UsageError(f"forecast: start {show} is to be shown, but there are {starts}")
    area = float(weights.sum()) * starts
    return Forecasts(
        starts=starts,
        lead_days=tuple((lead_days / starts).tolist()),
        rmse={k: tuple(np.sqrt(v / area).tolist()) for k, v in squares.items()},
        start=shown[0],
        date=shown[1],
        shown=shown[2],
        truth=shown[3],
        persistence=shown[4],
    )


def _days(spans: NDArray[Any]) -> NDArray[np.float64]:
    return np.array([span.total_seconds() / 86400.0 for span in spans])
