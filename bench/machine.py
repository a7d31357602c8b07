"""Where and with what a result was measured."""

from __future__ import annotations

import os
import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

__all__ = ["commit", "describe"]


def describe() -> dict[str, Any]:
    """Processor, memory, kernel, versions; no name of the machine."""
    names = ("torch", "numpy", "xarray", "zarr", "numcodecs")
    return {
        "processor": _field("/proc/cpuinfo", "model name"),
        "cores": len(os.sched_getaffinity(0)),
        "vectors": _vectors(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "kernel": platform.release().split("-")[0],
        "python": platform.python_version(),
        **{name: version(name) for name in names},
    }


def commit(root: Path) -> str:
    """The commit that was measured, with `+` where files differ from it."""
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(
            root, "status", "--porcelain", "--untracked-files=no", "src", "python", "bench"
        )
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return head + ("+" if changed else "")


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(
        ["git", "-C", str(root), *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def _field(path: str, name: str) -> str:
    for line in Path(path).read_text().splitlines():
        if line.startswith(name):
            return line.partition(":")[2].strip()
    return platform.machine()


def _vectors() -> str:
    flags = _field("/proc/cpuinfo", "flags").split()
    return next((v for v in ("avx512bw", "avx2") if v in flags), "baseline")
