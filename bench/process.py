"""What a process and its children use: processor time and memory, from /proc."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["forget_peak", "peak_bytes", "processor_s", "resident_bytes"]

_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def _family(process: int) -> list[int]:
    found = [process]
    for thread in Path(f"/proc/{process}/task").iterdir():
        for child in (thread / "children").read_text().split():
            found += _family(int(child))
    return found


def processor_s() -> float:
    """User and system seconds of this process and its living descendants."""
    total = 0.0
    for process in _family(os.getpid()):
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        total += (int(fields[11]) + int(fields[12])) * _TICK_S
    return total


def _status_bytes(name: str) -> int:
    total = 0
    for process in _family(os.getpid()):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            if line.startswith(name):
                total += int(line.split()[1]) * 1024
    return total


def resident_bytes() -> int:
    """Resident memory of this process and its descendants; shared pages count for each."""
    return _status_bytes("VmRSS:")


def peak_bytes() -> int:
    """Sum of the peaks since `forget_peak`."""
    return _status_bytes("VmHWM:")


def forget_peak() -> None:
    """Peaks start anew from what is resident now."""
    for process in _family(os.getpid()):
        Path(f"/proc/{process}/clear_refs").write_text("5")
