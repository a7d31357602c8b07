"""`import niskin` needs no torch and starts nothing."""

from __future__ import annotations

import subprocess
import sys

import pytest

IMPORT_WITHOUT_TORCH = """
import os, sys, threading
sys.modules["torch"] = None
before = len(os.listdir("/proc/self/task"))
import niskin
assert len(os.listdir("/proc/self/task")) == before, "a thread was started at import"
assert threading.active_count() == 1
print(niskin.NativeLoader.__name__)
"""


@pytest.mark.notorch
def test_import_works_without_torch_and_starts_no_thread() -> None:
    # numpy's own thread pool is not ours to count.
    code = "import numpy\n" + IMPORT_WITHOUT_TORCH
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "NativeLoader\n"
