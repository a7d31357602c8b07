"""The stores that are read: built once, kept in a folder."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rich.console import Console

from bench.scenarios import Scenario

__all__ = ["build_missing", "folder", "read_through"]


def folder(build: Path) -> Path:
    """$NISKIN_BENCH_DIR, or `stores` under the build folder."""
    named = os.environ.get("NISKIN_BENCH_DIR")
    return Path(named).resolve() if named else build / "stores"


def build_missing(stores: Path, scenarios: Iterable[Scenario], console: Console) -> None:
    """Builds the stores that are not there yet, each with all channels."""
    from niskin import sample_store

    for scenario in {scenario.store: scenario for scenario in scenarios}.values():
        if (stores / scenario.store / "OM4.zarr").exists():
            continue
        with console.status(f"building {scenario.store}"):
            made = sample_store.build(
                stores / scenario.store,
                resolution=scenario.resolution,
                rows=scenario.rows,
                layout=scenario.layout,
                codec=scenario.codec,
            )
        ratio = made.field_bytes / made.stored_bytes
        console.print(f"built {scenario.store}: {made.stored_bytes / 1e9:.2f} GB, {ratio:.2f}:1")


def read_through(store: Path) -> None:
    """Reads every file once, so that the page cache holds the store."""
    buffer = bytearray(8 << 20)
    for path in store.rglob("*"):
        if path.is_file():
            with path.open("rb", buffering=0) as file:
                while file.readinto(buffer):
                    pass
