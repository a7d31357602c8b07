"""How large the demo is, and the training configuration that follows from it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from niskin.config import TrainConfig
from niskin.config_file import parse_config

__all__ = ["FULL", "QUICK", "DemoSettings"]

SST = "thetao_0"


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """One size of the demo. The last of the store's years is held out of training."""

    resolution: str
    years: int
    widths: tuple[int, ...]
    patch: int
    epochs: int
    steps: tuple[int, ...]
    step_transition: tuple[int, ...]
    batch_size: int
    learning_rate: float
    forecast_steps: int
    forecast_every: int  # rows between the starts of two forecasts
    compared_batches: int  # checked bit for bit, and timed, per round
    timed_rounds: int
    trained_batches: int  # per loader, in the comparison of the time spent waiting
    max_batches: int | None = None
    start_year: int = 1958
    seed: int = 15
    hist: int = 1
    prognostic: str = "thermo_dynamic_5"
    boundary: str = "tau_hfds"
    codec: str = "lz4"

    @property
    def held_out(self) -> int:
        """The year that no training sample touches."""
        return self.start_year + self.years - 1

    def config(self, store: Path, out: Path) -> TrainConfig:
        """Trains on all years but the last, validates on that; output goes to `out`/run."""
        return parse_config(
            {
                "experiment": {
                    "name": "run",
                    "data_root": str(store),
                    "output_dir": str(out),
                    "rand_seed": self.seed,
                },
                "data": {
                    "sources": [
                        {
                            "data_location": "OM4.zarr",
                            "data_means_location": "OM4_means.zarr",
                            "data_stds_location": "OM4_stds.zarr",
                            "prognostic_vars_key": self.prognostic,
                            "boundary_vars_key": self.boundary,
                            "train_time": {
                                "start": f"{self.start_year:04d}",
                                "end": f"{self.held_out - 1:04d}",
                            },
                            "val_time": {
                                "start": f"{self.held_out:04d}",
                                "end": f"{self.held_out:04d}",
                            },
                        }
                    ],
                    "hist": self.hist,
                },
                "model": {"widths": self.widths, "patch": self.patch},
                "epochs": self.epochs,
                "batch_size": self.batch_size,
                "steps": self.steps,
                "step_transition": self.step_transition,
                "learning_rate": self.learning_rate,
                "max_batches": self.max_batches,
            },
            name="demo",
        )


FULL = DemoSettings(
    resolution="1deg",
    years=4,
    widths=(16, 32, 48),
    patch=2,
    epochs=3,
    steps=(1, 2),
    step_transition=(3,),
    batch_size=2,
    learning_rate=2e-3,
    forecast_steps=4,
    forecast_every=4,
    compared_batches=8,
    timed_rounds=2,
    trained_batches=6,
)

QUICK = DemoSettings(
    resolution="2deg",
    years=3,
    widths=(16, 32),
    patch=2,
    epochs=2,
    steps=(1, 2),
    step_transition=(2,),
    batch_size=2,
    learning_rate=3e-3,
    forecast_steps=4,
    forecast_every=8,
    compared_batches=4,
    timed_rounds=2,
    trained_batches=4,
)
