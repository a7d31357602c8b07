"""What one batch costs in Python, and what opening costs: `python -m bench.overheads WHAT …`."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

from bench.scenarios import Scenario

__all__ = ["opening", "python_per_batch"]

BATCHES = 10_000
OPENINGS = 5
TINY = Scenario(
    layout="flat", codec="none", batch=2, steps=1, hist=0, resolution="2deg", rows=73,
    prognostic="zos",
)  # fmt: skip


def python_per_batch(stores: Path) -> dict[str, float]:
    """Microseconds for each batch of a tiny store: processor time of the consumer's thread."""
    return _elsewhere("python", stores / "tiny")


def opening(store: Path) -> dict[str, float]:
    """Milliseconds to open a store and make a loader, and to open it with xarray; medians."""
    ours, theirs = [], []
    for _ in range(OPENINGS):
        ours.append(_elsewhere("open", store))
        theirs.append(_elsewhere("xarray", store))
    return {
        "variables": theirs[0]["variables"],
        "open_om4_ms": median(x["open_ms"] for x in ours),
        "loader_ms": median(x["loader_ms"] for x in ours),
        "xarray_ms": median(x["data_ms"] for x in theirs),
        "xarray_three_ms": median(x["three_ms"] for x in theirs),
        "xarray_read_ms": median(x["read_ms"] for x in theirs),
        "beyond_xarray_ms": median(x["open_ms"] + x["loader_ms"] for x in ours)
        - median(x["data_ms"] for x in theirs),
    }


def _elsewhere(what: str, folder: Path) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.overheads", what, str(folder)],
        check=True,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parent.parent,
    )
    result: dict[str, float] = json.loads(done.stdout)
    return result


def _open(folder: Path, **channels: Any) -> Any:
    import niskin

    return niskin.open_om4(
        folder / "OM4.zarr", folder / "OM4_means.zarr", folder / "OM4_stds.zarr", **channels
    )


def _measure_python(folder: Path) -> dict[str, float]:
    import niskin
    from niskin import sample_store

    if not (folder / "OM4.zarr").exists():
        sample_store.build(
            folder, resolution=TINY.resolution, rows=TINY.rows, codec=TINY.codec,
            variables="zos,tauuo",
        )  # fmt: skip
    source = _open(folder, prognostic=["zos"], boundary=["tauuo"])
    shard = niskin.TrainingShard(source, hist=TINY.hist, steps=TINY.steps)
    schedule = TINY.schedule(shard, BATCHES)
    found = {}
    for what in ("batch", "batch_and_views"):
        with niskin.NativeLoader([shard], schedule) as loader:
            begin, own = time.perf_counter(), time.thread_time()
            for batch in loader:
                if what == "batch_and_views":
                    for step in batch:
                        del step
            found[f"{what}_us"] = (time.thread_time() - own) / BATCHES * 1e6
            found[f"{what}_wall_us"] = (time.perf_counter() - begin) / BATCHES * 1e6
    return found


def _settle() -> None:
    """Importing is not opening, nor is the collection of garbage that importing left behind."""
    import torch  # noqa: F401
    import xarray  # noqa: F401
    import zarr  # noqa: F401

    from niskin import native_loader  # noqa: F401

    gc.collect()


def _measure_open(folder: Path) -> dict[str, float]:
    import niskin

    _settle()
    begin = time.perf_counter()
    source = _open(folder, prognostic="thermo_dynamic_all", boundary="tau_hfds")
    opened = time.perf_counter()
    shard = niskin.TrainingShard(source, hist=1, steps=1)
    with niskin.NativeLoader([shard], [[0]]):
        made = time.perf_counter()
    return {"open_ms": (opened - begin) * 1e3, "loader_ms": (made - opened) * 1e3}


def _measure_xarray(folder: Path) -> dict[str, float]:
    import xarray as xr

    _settle()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        begin = time.perf_counter()
        data = xr.open_zarr(folder / "OM4.zarr", consolidated=True, chunks=None)
        one = time.perf_counter()
        statistics = [
            xr.open_zarr(folder / name, chunks=None) for name in ("OM4_means.zarr", "OM4_stds.zarr")
        ]
        three = time.perf_counter()
        for dataset in (*statistics, data[[n for n in data.variables if "mask" in str(n)]]):
            dataset.load()
        read = time.perf_counter()
    return {
        "variables": len(data.variables),
        "data_ms": (one - begin) * 1e3,
        "three_ms": (three - begin) * 1e3,
        "read_ms": (read - begin) * 1e3,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    measure = {"python": _measure_python, "open": _measure_open, "xarray": _measure_xarray}
    json.dump(measure[sys.argv[1]](Path(sys.argv[2])), sys.stdout)
