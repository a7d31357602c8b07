"""What this process may use of the machine: cores and memory, as scheduler and cgroup allow."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["decode_threads", "local_ranks", "memory_limit", "usable_cores"]

_CGROUP = Path("/sys/fs/cgroup")
_RANK_VARIABLES = ("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE")


def local_ranks(environment: Mapping[str, str] = os.environ) -> int:
    """Ranks of this run on this node, as torchrun, Slurm or Open MPI say; 1 if none does."""
    for name in _RANK_VARIABLES:
        value = environment.get(name, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    return 1


def usable_cores(cgroup: Path = _CGROUP) -> int:
    """Cores that affinity and the cgroup's CPU quota leave to this process, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = _read(cgroup / "cpu.max").split()
    if len(quota) == 2 and quota[0].isdigit() and int(quota[1]) > 0:
        cores = min(cores, max(1, int(quota[0]) // int(quota[1])))
    return max(1, cores)


def decode_threads() -> int:
    """The default of `Pool`: usable cores divided by local ranks, at least 1."""
    return max(1, usable_cores() // local_ranks())


def memory_limit(cgroup: Path = _CGROUP) -> int:
    """The default of `Pool` in bytes: a quarter of the memory allowed, divided by local ranks."""
    allowed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    limit = _read(cgroup / "memory.max").strip()
    if limit.isdigit():
        allowed = min(allowed, int(limit))
    return max(1, allowed // 4 // local_ranks())


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii")
    except OSError:
        return ""
