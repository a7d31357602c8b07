"""Training through the C++ loader gives what training through xarray gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from niskin.config_file import parse_config
from niskin.train import Trainer
from stores import tiny_store


def losses(store: Path, out: Path, loading: dict[str, Any]) -> tuple[float, ...]:
    source = {
        "data_location": "OM4.zarr",
        "data_means_location": "OM4_means.zarr",
        "data_stds_location": "OM4_stds.zarr",
        "prognostic_vars_key": ["thetao_0", "zos"],
        "train_time": {"start": "1958-01-03", "end": "1958-03-09"},
        "val_time": {"start": "1958-03-14", "end": "1958-04-28"},
        "inference_times": [{"start": "1958-03-14", "end": "1958-04-28"}],
    }
    config = parse_config(
        {
            "experiment": {"data_root": str(store), "output_dir": str(out)},
            "data": {
                "sources": [source],
                "loading": loading,
                "inference_loading": {"num_workers": 0},
            },
            "model": {"widths": [4]},
            "epochs": 2,
            "steps": [1, 2],
            "step_transition": [2],
            "device": "cpu",
        }
    )
    result = Trainer(config).run()
    assert result.inference is not None
    validation = tuple(epoch.validation.loss for epoch in result.epochs)
    return (*result.losses, *validation, *result.inference.model)


@pytest.mark.parametrize("layout", ["flat", "compact"])
def test_both_loaders_train_to_the_same_numbers(tmp_path: Path, layout: Any) -> None:
    tiny_store(tmp_path, layout=layout, rows=24, ny=6, nx=8, levels=2, codec="blosc-lz4")
    native = losses(tmp_path, tmp_path / "native", {"type": "native", "memory_limit": 64 << 20})
    cpu = losses(tmp_path, tmp_path / "cpu", {"type": "cpu", "num_workers": 0})
    assert native == cpu
