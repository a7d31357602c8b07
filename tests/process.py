"""What the operating system knows of this process, and scripts in processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["alarm", "eventually", "open_files", "run_script", "threads"]

TESTS = Path(__file__).parent


def threads() -> int:
    """Threads of this process, those of the core included."""
    return sum(1 for _ in Path("/proc/self/task").iterdir())


def open_files() -> int:
    """File descriptors of this process."""
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def eventually(condition: Callable[[], bool], within_s: float = 20.0) -> bool:
    """Whether a condition comes true in time; threads end a moment after they are let go."""
    until = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.005)
    return True


@contextmanager
def alarm(seconds: int) -> Iterator[None]:
    """Kills the process if the block takes longer: a hang in C++ fails and does not block."""
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def run_script(
    text: str, *arguments: object, timeout_s: float = 60
) -> subprocess.CompletedProcess[str]:
    """Runs Python `text` with `arguments` as sys.argv[1:]; modules of tests/ can be imported."""
    environment = os.environ | {
        "PYTHONPATH": os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    }
    return subprocess.run(
        [sys.executable, "-c", text, *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=timeout_s,
        check=False,
        env=environment,
    )
