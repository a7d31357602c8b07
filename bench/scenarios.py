"""Scenarios: a store, and how it is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from niskin.shard import TrainingShard

__all__ = ["Scenario", "chosen"]

CODECS = ("none", "lz4", "zstd")
LAYOUTS = ("flat", "compact")


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Shuffled batches of one store. `rows`: length of its record, five-day means."""

    layout: str
    codec: str
    batch: int
    steps: int
    resolution: str = "1deg"
    rows: int = 120
    prognostic: str = "thermo_dynamic_all"
    boundary: str = "tau_hfds"
    hist: int = 1
    stride: int = 1
    seed: int = 15

    @property
    def store(self) -> str:
        """Folder of the store among the stores."""
        return f"{self.resolution}-{self.layout}-{self.codec}-{self.rows}"

    @property
    def name(self) -> str:
        """What results are filed under."""
        levels = "" if self.prognostic == "thermo_dynamic_all" else f"-{self.prognostic}"
        return f"{self.store}-b{self.batch}-s{self.steps}{levels}"

    @property
    def label(self) -> str:
        """One line for people."""
        levels = ", 5 of 19 levels" if self.prognostic == "thermo_dynamic_5" else ""
        grid = self.resolution.removesuffix("deg") + "°"
        rows = "" if self.rows == 120 else f", {self.rows} rows"
        return f"{grid} {self.layout} {self.codec}, B {self.batch}, S {self.steps}{levels}{rows}"

    def shard(self, stores: Path) -> TrainingShard:
        """The windows over the store, which must exist under `stores`."""
        import niskin

        folder = stores / self.store
        source = niskin.open_om4(
            folder / "OM4.zarr",
            folder / "OM4_means.zarr",
            folder / "OM4_stds.zarr",
            prognostic=self.prognostic,
            boundary=self.boundary,
        )
        return niskin.TrainingShard(source, hist=self.hist, steps=self.steps, stride=self.stride)

    def schedule(self, shard: TrainingShard, batches: int) -> list[list[int]]:
        """The first `batches` batches of as many shuffled epochs as it takes."""
        import niskin

        sampler = niskin.BatchSampler(
            [shard], batch_size=self.batch, shuffle=True, drop_last=True, seed=self.seed
        )
        found: list[list[int]] = []
        epoch = 0
        while len(found) < batches:
            found += [list(batch) for batch in sampler.schedule(epoch)]
            epoch += 1
        return found[:batches]


def chosen(*, rows: int, full: bool) -> Sequence[Scenario]:
    """A1 and A2: batches of 8 samples and 4 steps on every store; `full` adds the smaller ones."""
    main = [
        Scenario(layout=layout, codec=codec, batch=8, steps=4, rows=rows)
        for layout in LAYOUTS
        for codec in CODECS
    ]
    single = [
        Scenario(layout=layout, codec=codec, batch=8, steps=1, rows=rows)
        for layout in LAYOUTS
        for codec in CODECS
    ]
    small = [
        Scenario(layout=layout, codec=codec, batch=2, steps=steps, rows=rows)
        for steps in (4, 1)
        for layout in LAYOUTS
        for codec in CODECS
    ]
    levels = [
        Scenario(
            layout="compact", codec=codec, batch=8, steps=4, rows=rows,
            prognostic="thermo_dynamic_5",
        )
        for codec in CODECS
    ]  # fmt: skip
    if full:
        return [*main, *single, *levels, *small]
    lz4 = [scenario for scenario in (*single, *levels) if scenario.codec == "lz4"]
    return [*main, *lz4]
