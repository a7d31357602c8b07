"""The demo's picture: forecast, truth and errors on maps, the losses, and the error by lead."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from numpy.typing import NDArray

from .forecast import Forecasts

__all__ = ["LossCurve", "draw"]

_LAND, _COAST = "#b8b8b4", "#3c3c3c"
_COLOURS = {"model": "#0b6e99", "persistence": "#c8553d", "climatology": "#8a8a3a"}
_LABELS = {
    "model": "emulator",
    "persistence": "persistence",
    "climatology": "climatology of the training years",
}
_WEST = 20.0  # the map's left edge, degrees east: no ocean is cut but a strip south of Africa


@dataclass(frozen=True, kw_only=True)
class LossCurve:
    """Losses of one stretch of training with rollouts of the same length."""

    steps: int
    first_batch: int
    training: Sequence[float]  # per batch
    validation: Sequence[tuple[int, float]]  # (batches trained so far, loss) per epoch


def draw(
    path: Path,
    forecasts: Forecasts,
    curves: Sequence[LossCurve],
    *,
    lat: NDArray[np.float64],
    lon: NDArray[np.float64],
    title: str,
) -> None:
    """Writes the picture as a PNG. Uses no window system and leaves matplotlib's settings alone."""
    with mpl.rc_context({"font.size": 10, "axes.titlesize": 11, "axes.titlelocation": "left"}):
        figure = Figure(figsize=(15, 11.5), layout="constrained")
        FigureCanvasAgg(figure)
        figure.get_layout_engine().set(hspace=0.04, wspace=0.03)  # type: ignore[union-attr, call-arg]
        grid = figure.add_gridspec(3, 2, height_ratios=(1, 1, 0.72))
        maps = [figure.add_subplot(grid[i, j]) for i in (0, 1) for j in (0, 1)]
        globe = _Globe(lat, lon, np.isfinite(forecasts.truth))
        lead = f"{round(forecasts.lead_days[-1])} days"
        day = forecasts.date.strftime("%-d %B %Y")
        warmest = float(np.nanpercentile(forecasts.truth, 99.5))
        top = {"cmap": "Spectral_r", "vmin": -2.0, "vmax": warmest}
        globe.show(maps[0], forecasts.shown, f"Emulator's forecast for {day}, {lead} ahead", top)
        shown = globe.show(maps[1], forecasts.truth, f"Truth, {day}", top)
        figure.colorbar(shown, ax=maps[:2], shrink=0.85, pad=0.01, label="SST (°C)", extend="max")
        errors = {
            "Error of the forecast (forecast − truth)": forecasts.shown - forecasts.truth,
            "Error of persistence (the last known SST − truth)": (
                forecasts.persistence - forecasts.truth
            ),
        }
        limit = float(np.nanpercentile(np.abs(forecasts.persistence - forecasts.truth), 98))
        bottom = {"cmap": "RdBu_r", "vmin": -limit, "vmax": limit}
        for axes, (name, error) in zip(maps[2:], errors.items(), strict=True):
            rms = globe.mean_square(error) ** 0.5
            shown = globe.show(axes, error, f"{name}: RMS {rms:.2f} °C", bottom)
        figure.colorbar(
            shown, ax=maps[2:], shrink=0.85, pad=0.01, label="difference (°C)", extend="both"
        )
        _losses(figure.add_subplot(grid[2, 0]), curves)
        _by_lead(figure.add_subplot(grid[2, 1]), forecasts)
        figure.suptitle(title, x=0.01, ha="left", fontsize=14, fontweight="bold")
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path, dpi=110)


class _Globe:
    """Draws fields (lat, lon) with the seam moved to `_WEST`."""

    def __init__(
        self, lat: NDArray[np.float64], lon: NDArray[np.float64], wet: NDArray[np.bool_]
    ) -> None:
        turned = (lon - _WEST) % 360.0 + _WEST
        self._order = np.argsort(turned)
        self._lon, self._lat = turned[self._order], lat
        self._wet = wet[:, self._order].astype(float)
        self._weights = np.cos(np.deg2rad(lat))[:, None] * wet

    def mean_square(self, field: NDArray[np.floating]) -> float:
        """Weighted by area, over wet cells."""
        return float((np.nan_to_num(field) ** 2 * self._weights).sum() / self._weights.sum())

    def show(
        self, axes: Axes, field: NDArray[np.floating], title: str, style: dict[str, Any]
    ) -> Any:
        """Draws one map and returns what a colour bar needs."""
        axes.set_facecolor(_LAND)
        shown = axes.pcolormesh(
            self._lon, self._lat, field[:, self._order], shading="nearest", rasterized=True, **style
        )
        axes.contour(self._lon, self._lat, self._wet, levels=[0.5], colors=_COAST, linewidths=0.6)
        axes.set(xlim=(_WEST, _WEST + 360), ylim=(-80, 90), aspect=1.15)
        axes.set_xticks(np.arange(60, 361, 60), [_east(x) for x in range(60, 361, 60)])
        axes.set_yticks(range(-60, 61, 30), [_north(y) for y in range(-60, 61, 30)])
        axes.tick_params(length=2, labelsize=8, colors="#555555")
        axes.set_title(title)
        return shown


def _east(x: int) -> str:
    x %= 360
    return f"{x}°E" if 0 < x < 180 else f"{360 - x}°W" if x > 180 else f"{x}°"


def _north(y: int) -> str:
    return "0°" if y == 0 else f"{abs(y)}°{'N' if y > 0 else 'S'}"


def _losses(axes: Axes, curves: Sequence[LossCurve]) -> None:
    total = sum(len(curve.training) for curve in curves)
    for curve in curves:
        batches = np.arange(len(curve.training)) + curve.first_batch
        axes.plot(batches, curve.training, color=_COLOURS["model"], alpha=0.3, linewidth=0.8)
        width = max(1, min(total // 25, len(batches)))
        smooth = np.convolve(curve.training, np.ones(width) / width, mode="valid")
        middle = batches[(width - 1) // 2 :][: len(smooth)]
        axes.plot(middle, smooth, color=_COLOURS["model"], linewidth=2, label="training")
        ends, values = zip(*curve.validation, strict=True)
        axes.plot(
            ends, values, "o", color=_COLOURS["persistence"], zorder=3,
            label="held-out year, 1 step",
        )  # fmt: skip
        axes.axvline(curve.first_batch, color="#aaaaaa", linewidth=0.8, linestyle=":")
        axes.annotate(
            f"rollouts of {curve.steps} step" + ("s" if curve.steps > 1 else ""),
            (curve.first_batch, 1.0), xycoords=("data", "axes fraction"),
            xytext=(4, -11), textcoords="offset points", fontsize=9, color="#666666",
        )  # fmt: skip
    axes.axhline(1.0, color="#999999", linewidth=1, linestyle="--")
    axes.set(ylim=(0, None), xlim=(0, total * 1.02), xlabel="batch", ylabel="mean square error")
    axes.set_title("Loss; 1 is that of persistence over one step, all channels alike")
    handles, labels = axes.get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    axes.legend(list(once.values()), list(once), frameon=False, loc="lower left")
    _plain(axes)


def _by_lead(axes: Axes, forecasts: Forecasts) -> None:
    for name, values in forecasts.rmse.items():
        axes.plot(
            forecasts.lead_days, values, color=_COLOURS[name], label=_LABELS[name],
            marker="o", markersize=4, linewidth=2.4 if name == "model" else 1.5,
        )  # fmt: skip
    axes.set(xlabel="days ahead", ylabel="RMSE of SST (°C)", ylim=(0, None), xlim=(0, None))
    year = forecasts.date.year
    axes.set_title(f"Error in {year}, held out of training; {forecasts.starts} forecasts")
    axes.legend(frameon=False)
    _plain(axes)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(alpha=0.25, linewidth=0.6)
