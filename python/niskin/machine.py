"""What this process may use of the machine: cores and memory, as scheduler and cgroup allow.

The limits of a control group, of version 1 or 2, bind all groups below it: those of the process's
own group and of the groups above it count, as far as they can be seen. In a container that is the
mounted root, whatever path the process has outside.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath

__all__ = ["decode_threads", "local_ranks", "memory_limit", "usable_cores"]

_CGROUPS = Path("/sys/fs/cgroup")
_MEMBERSHIP = Path("/proc/self/cgroup")
_RANK_VARIABLES = ("LOCAL_WORLD_SIZE", "SLURM_NTASKS_PER_NODE", "OMPI_COMM_WORLD_LOCAL_SIZE")


def local_ranks(environment: Mapping[str, str] = os.environ) -> int:
    """Ranks of this run on this node, as torchrun, Slurm or Open MPI say; 1 if none does."""
    for name in _RANK_VARIABLES:
        value = environment.get(name, "")
        if value.isdigit() and int(value) > 0:
            return int(value)
    return 1


def usable_cores(cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP) -> int:
    """Cores that affinity and the cgroups' CPU quotas leave to this process, at least 1."""
    if hasattr(os, "sched_getaffinity"):
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    for folder in _groups("cpu", cgroups, membership):
        quota = _read(folder / "cpu.max").split() or [
            _read(folder / "cpu.cfs_quota_us"),
            _read(folder / "cpu.cfs_period_us"),
        ]
        if len(quota) == 2 and all(map(str.isdigit, quota)) and int(quota[1]) > 0:
            cores = min(cores, int(quota[0]) // int(quota[1]))
    return max(1, cores)


def decode_threads() -> int:
    """The default of `Pool`: usable cores divided by local ranks, at least 1."""
    return max(1, usable_cores() // local_ranks())


def memory_limit(cgroups: Path = _CGROUPS, membership: Path = _MEMBERSHIP) -> int:
    """The default of `Pool` in bytes: a quarter of the memory allowed, divided by local ranks."""
    allowed = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for folder in _groups("memory", cgroups, membership):
        for name in ("memory.max", "memory.limit_in_bytes"):
            limit = _read(folder / name)
            if limit.isdigit():
                allowed = min(allowed, int(limit))
    return max(1, allowed // 4 // local_ranks())


def _groups(controller: str, cgroups: Path, membership: Path) -> Iterator[Path]:
    """Folders of the groups that bind this process, in the unified hierarchy and in version 1."""
    for line in _read(membership).splitlines() or ["0::/", f"1:{controller}:/"]:
        number, controllers, path = [*line.split(":", 2), "", ""][:3]
        if number == "0":
            mounts = [cgroups, cgroups / "unified"]
        elif controller in controllers.split(","):
            mounts = [cgroups / controllers, cgroups / controller]
        else:
            continue
        group = PurePosixPath(path.lstrip("/"))
        for mount in mounts:
            for name in (group, *group.parents):
                yield mount / name


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
