"""The demo's store: built once, reused while it is what the demo would build."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from niskin import sample_store

from .settings import DemoSettings

__all__ = ["ensure_store"]

_RECORD = "demo-store.json"


def ensure_store(
    directory: Path, settings: DemoSettings, progress: Callable[[int, int], None] | None = None
) -> bool:
    """Builds the sample store in `directory` unless it is there already; True if it was built.

    A record in the directory says how the store was made; one for other settings is replaced.
    `progress(done, total)` counts planes. Raises what `sample_store.build` raises.
    """
    wanted: dict[str, Any] = {
        "resolution": settings.resolution,
        "years": settings.years,
        "start_year": settings.start_year,
        "codec": settings.codec,
        "layout": "flat",
        "variables": f"{settings.prognostic}+{settings.boundary}",
        "seed": settings.seed,
    }
    record = directory / _RECORD
    try:
        if json.loads(record.read_text(encoding="utf-8")) == wanted:
            return False
    except (OSError, ValueError):
        pass
    sample_store.build(directory, **wanted, overwrite=True, progress=progress)
    record.write_text(json.dumps(wanted, indent=2) + "\n", encoding="utf-8")
    return True
