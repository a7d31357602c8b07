"""A source in memory: what shards and loaders need of a dataset, each value another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast

import cftime
import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from niskin.canonical import CanonicalDataset


@dataclass(eq=False)
class FakeSource:
    """`rows` pentads in a ny x nx box; dates in `skip` (pentad numbers) are left out."""

    rows: int = 20
    prognostic: tuple[str, ...] = ("thetao_0", "zos")
    boundary: tuple[str, ...] = ("hfds",)
    ny: int = 2
    nx: int = 3
    name: str = "fake"
    skip: tuple[int, ...] = ()
    calendar: str = "julian"
    bad_values: str = "warn"
    offset: float = 0.0
    mean: float = 0.0
    std: float = 1.0
    dry: tuple[str, ...] = ()
    reads: list[tuple[list[int], tuple[str, ...]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.store_path = f"/nowhere/{self.name}.zarr"
        days = [2.5 + 5 * k for k in range(self.rows) if k not in self.skip]
        units = "days since 1958-01-01"
        self.time: NDArray[np.object_] = cftime.num2date(days, units, calendar=self.calendar)
        self.lat = np.linspace(-10.0, 10.0, self.ny)
        self.lon = np.linspace(0.0, 20.0, self.nx)
        self.channels = (*self.prognostic, *self.boundary)
        wet = np.ones((self.ny, self.nx), dtype=bool)
        wet[0, 0] = False
        self.masks = {c: np.zeros_like(wet) if c in self.dry else wet for c in self.channels}
        shape = (len(days), len(self.channels), self.ny, self.nx)
        self.values = np.arange(np.prod(shape), dtype=np.float32).reshape(shape) + self.offset

    def statistics(self, channels: Sequence[str]) -> tuple[NDArray[Any], NDArray[Any]]:
        return np.full(len(channels), self.mean), np.full(len(channels), self.std)

    def read(self, indices: Any, channels: Sequence[str]) -> NDArray[np.float32]:
        self.reads.append((np.asarray(indices).tolist(), tuple(channels)))
        at = [self.channels.index(c) for c in channels]
        return self.values[np.asarray(indices)][..., at, :, :].astype(np.float32)


def fake(**options: Any) -> CanonicalDataset:
    """A `FakeSource` that passes for a dataset."""
    return cast("CanonicalDataset", FakeSource(**options))
