"""A batch as an xarray dataset, for looking at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

if TYPE_CHECKING:
    from niskin.batch import Batch

__all__ = ["batch_dataset"]


def batch_dataset(batch: Batch) -> xr.Dataset:
    """What `Batch.to_xarray` returns."""
    samples, steps, width = len(batch.indices), len(batch), batch.hist + 1
    channels = {plan.role: plan.channels for plan in batch.plans}
    input_coords, output_coords = (
        tuple(np.asarray(axis) for axis in pair)
        for pair in (batch.context.input_coords, batch.context.output_coords)
    )
    same_grid = all(map(np.array_equal, input_coords, output_coords))
    label_grid = ("lat", "lon") if same_grid else ("label_lat", "label_lon")
    leading = ("sample", "step", "history")

    def tensor(name: str, dims: tuple[str, str, str]) -> tuple[tuple[str, ...], Any]:
        stacked = np.stack([_host(getattr(step, name)) for step in batch], axis=1)
        shape = (samples, steps, width, stacked.shape[2] // width, *stacked.shape[3:])
        return (*leading, *dims), stacked.reshape(shape)

    rows = steps * width
    dates = [batch.times[:, :rows], batch.times[:, width:]]
    coords: dict[str, Any] = {
        "sample": batch.indices,
        "step": np.arange(steps),
        "channel": list(channels["prognostic"]),
        "boundary_channel": list(channels["boundary"]),
        "lat": input_coords[0],
        "lon": input_coords[1],
        label_grid[0]: output_coords[0],
        label_grid[1]: output_coords[1],
        "input_time": (leading, dates[0].reshape(samples, steps, width)),
        "label_time": (leading, dates[1].reshape(samples, steps, width)),
        "valid": ("sample", batch.valid),
    }
    variables = {
        "prognostic": tensor("prognostic", ("channel", "lat", "lon")),
        "boundary": tensor("boundary", ("boundary_channel", "lat", "lon")),
        "label": tensor("label", ("channel", *label_grid)),
    }
    return xr.Dataset(variables, coords=coords)


def _host(array: Any) -> np.ndarray[Any, Any]:
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()
