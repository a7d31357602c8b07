"""OM4-shaped stores made from real ocean climatology, at any resolution, layout and codec.

    store = niskin.sample_store.build(Path("sample"), resolution="1deg", years=3, codec="lz4")
    source = niskin.open_om4(store.data, store.means, store.stds)

The mean temperature, salinity, winds and heat flux, the seasons of all but salinity, the coast and
the sea floor are real. Weather, eddies and the ocean's answer to them are made, from a seed.
"""

from __future__ import annotations

import os
import shutil
import socket
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from niskin.channels import mask_level
from niskin.errors import UsageError, address

from . import climatology, pentads
from .grid import RESOLUTIONS, Grid, Plane
from .moments import Moments
from .ocean import Ocean, RowFields
from .request import CODECS, DEFAULT_VARIABLES, LAYOUTS, Request
from .slow_ocean import SlowOcean
from .writer import StoreWriter, write_statistics

__all__ = ["CODECS", "DEFAULT_VARIABLES", "LAYOUTS", "RESOLUTIONS", "SampleStore", "build"]

Progress = Callable[[int, int], None]

# A folder of stores in the making: this prefix, the machine and the process.
_PARTIAL = f".partial-{socket.gethostname()}-"


@dataclass(frozen=True, kw_only=True)
class SampleStore:
    """The three stores that were written, and what writing them took."""

    data: Path
    means: Path
    stds: Path
    rows: int
    channels: tuple[str, ...]
    field_bytes: int  # of the fields, uncompressed
    stored_bytes: int  # of the files that hold them
    seconds: float


def build(
    out: str | os.PathLike[str],
    *,
    resolution: str = "1deg",
    years: int = 1,
    rows: int | None = None,
    layout: str = "flat",
    codec: str = "lz4",
    variables: str | Sequence[str] = DEFAULT_VARIABLES,
    start_year: int = 1958,
    seed: int = 0,
    rows_per_chunk: int = 1,
    overwrite: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> SampleStore:
    """Write `out`/OM4.zarr, OM4_means.zarr and OM4_stds.zarr.

    `rows` pentads, or 73 for each of `years`, from 3 January of `start_year`. `variables` are keys
    of variable sets joined by "+", or channels, as a sequence or joined by ",". A row's values
    depend on `resolution`, `seed` and `start_year` alone. The stores appear when they are complete,
    and `overwrite` replaces them but no other file of the folder.
    `progress(done, total)` is called with numbers of planes, from this thread.

    Raises UsageError for an argument that makes no sense, and for an `out` that is not empty unless
    `overwrite`; OSError where the disk refuses.
    """
    request = Request.checked(
        resolution=resolution,
        years=years,
        rows=rows,
        layout=layout,
        codec=codec,
        variables=variables,
        start_year=start_year,
        seed=seed,
        rows_per_chunk=rows_per_chunk,
    )
    target = Path(out)
    if target.exists() and not target.is_dir():
        raise UsageError(f"sample store: {target} is a file, expected a folder")
    _drop_unfinished(target)
    if target.exists() and any(target.iterdir()) and not overwrite:
        raise UsageError(
            address(
                f"sample store: {target} is not empty, expected a new folder",
                hint="choose another one, or replace the stores in it (--overwrite)",
            )
        )
    began = time.perf_counter()
    partial = target / f"{_PARTIAL}{os.getpid()}"
    partial.mkdir(parents=True)
    try:
        channels = _write(partial, request, threads or min(4, os.cpu_count() or 1), progress)
        _move_stores(partial, target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        if not any(target.iterdir()):
            target.rmdir()
    ny, nx = request.shape
    return SampleStore(
        data=target / "OM4.zarr",
        means=target / "OM4_means.zarr",
        stds=target / "OM4_stds.zarr",
        rows=request.rows,
        channels=channels,
        field_bytes=len(channels) * request.rows * ny * nx * 4,
        stored_bytes=_bytes_under(target / "OM4.zarr", request),
        seconds=time.perf_counter() - began,
    )


def _drop_unfinished(target: Path) -> None:
    """Removes what a run on this machine left behind when it was killed."""
    for folder in target.glob(f"{_PARTIAL}*"):
        process = folder.name.removeprefix(_PARTIAL)
        if process.isdigit() and not _is_alive(int(process)):
            shutil.rmtree(folder, ignore_errors=True)


def _is_alive(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _move_stores(partial: Path, target: Path) -> None:
    """Put the finished stores in place of old ones; the data last, nothing else is touched."""
    names = ("OM4.zarr", "OM4_means.zarr", "OM4_stds.zarr")
    for name in names:
        shutil.rmtree(target / name, ignore_errors=True)
    for name in reversed(names):
        (partial / name).rename(target / name)


def _bytes_under(store: Path, request: Request) -> int:
    return sum(
        entry.stat().st_size
        for name in request.arrays
        for entry in os.scandir(store / name)
        if not entry.name.startswith(".")
    )


def _attributes(request: Request) -> dict[str, Any]:
    return {
        "title": "Niskin sample store: real climatology, made variability",
        "source": "Levitus, COADS, FNOC, Esbensen-Kushnir and ETOPO5 climatologies; see docs",
        "grid_type": "gaussian",
        "coordinates": "dz",
        "niskin/resolution": request.resolution,
        "niskin/seed": request.seed,
    }


def _write(
    folder: Path, request: Request, threads: int, progress: Progress | None
) -> tuple[str, ...]:
    """Write the three stores into `folder`; the channels that they hold."""
    atlas = climatology.load()
    grid = Grid.gaussian(*request.shape)
    ocean = Ocean(grid, atlas, request.seed)
    attributes = _attributes(request)
    writer = StoreWriter(folder / "OM4.zarr", request, grid, ocean.wet, attributes)
    channels = tuple(name for names in request.arrays.values() for name in names)
    planes = _Planes(request, ocean, writer)
    days, _ = pentads.days_since(request.start_year, request.rows)
    slow = SlowOcean(atlas, request.seed)
    done, total = 0, len(channels) * request.rows
    with ThreadPoolExecutor(threads, thread_name_prefix="niskin-sample-store") as pool:
        pending: list[Future[int]] = []
        for first in range(0, request.rows, request.block_rows):
            rows = range(first, min(first + request.block_rows, request.rows))
            # The fields of this block are made while the threads still write the last one.
            fields = []
            for row in rows:
                day = float(days[row] - days[0])
                fields.append(ocean.row_fields(row, day, slow.step(row, day)))
            done += _finish(pending)
            if progress is not None:
                progress(done, total)
            pending = [pool.submit(planes.write, array, fields) for array in request.arrays]
        done += _finish(pending)
        if progress is not None:
            progress(done, total)
    writer.finish()
    moments = {name: planes.moments[name].result() for name in channels}
    for name, which in (("means", 0), ("stds", 1)):
        values = {channel: moment[which] for channel, moment in moments.items()}
        write_statistics(folder / f"OM4_{name}.zarr", request, values, attributes)
    return channels


def _finish(pending: list[Future[int]]) -> int:
    """Wait for a block; the number of planes written. The first failure cancels the rest."""
    _, unfinished = wait(pending, return_when=FIRST_EXCEPTION)
    for future in unfinished:
        future.cancel()
    return sum(future.result() for future in pending if not future.cancelled())


class _Planes:
    """Makes and writes the planes of one array for a block of rows; called from several threads."""

    def __init__(self, request: Request, ocean: Ocean, writer: StoreWriter) -> None:
        self._arrays = request.arrays
        self._ocean = ocean
        self._writer = writer
        self._local = threading.local()
        names = [name for names in request.arrays.values() for name in names]
        self._recipes = {name: ocean.recipe(name) for name in names}
        self.moments = {name: Moments(request.rows, ocean.wet[mask_level(name)]) for name in names}

    def write(self, array: str, fields: Sequence[RowFields]) -> int:
        """The number of planes written."""
        names = self._arrays[array]
        dims = self._writer.dims(array)
        sizes = {"lev": len(names), "time": len(fields)}
        block = self._block(tuple(sizes[dim] for dim in dims[:-2]))
        # The same memory as (level, row, y, x), whatever the order in the store.
        by_level = block if "lev" in dims else block[None]
        if dims[:2] == ("time", "lev"):
            by_level = block.swapaxes(0, 1)
        scratch = self._block(())
        for level, name in enumerate(names):
            for position, row in enumerate(fields):
                plane = by_level[level, position]
                self._ocean.fill(self._recipes[name], row, plane, scratch)
                self.moments[name].add(row.row, plane)
        self._writer.write(array, fields[0].row, block)
        return len(names) * len(fields)

    def _block(self, leading: tuple[int, ...]) -> Plane:
        """Memory of this thread, kept from call to call: fresh pages cost more than the work."""
        kept: dict[tuple[int, ...], Plane] = self._local.__dict__.setdefault("blocks", {})
        if leading not in kept:
            kept[leading] = np.empty((*leading, *self._ocean.grid.shape), dtype=np.float32)
        return kept[leading]
