"""The quick demo runs from nothing to a picture: every layer once, as a user meets it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.demo
@pytest.mark.slow
@pytest.mark.timeout(300)
def test_quick_demo_ends_with_a_table_and_a_picture(tmp_path: Path) -> None:
    out = tmp_path / "demo"
    command = [sys.executable, "-m", "niskin", "demo", "--quick", "--json", "--out", str(out)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=280, check=False)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-4000:]
    found = json.loads(result.stdout)
    assert found["passed"]
    assert Path(found["picture"]).stat().st_size > 20_000
