"""Compares python/niskin/_core.pyi with the stub that the built extension gives.

The stub is a golden file: a change of the bindings shows up in review as a change of the stub.
`--write` replaces it (`make stubs`).
"""

from __future__ import annotations

import argparse
import difflib
import subprocess
import sys
import tempfile
from pathlib import Path

STUB = Path(__file__).resolve().parent.parent / "python" / "niskin" / "_core.pyi"


def generate() -> str:
    """The stub of the installed niskin._core, formatted as ruff formats the rest."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / STUB.name
        stubgen = [sys.executable, "-m", "nanobind.stubgen", "-q", "-m", "niskin._core"]
        subprocess.run([*stubgen, "-o", str(output)], check=True)
        subprocess.run([sys.executable, "-m", "ruff", "format", "-q", str(output)], check=True)
        return output.read_text(encoding="utf-8")


def main() -> int:
    """0 when both are equal, 1 otherwise, with the difference."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the committed stub")
    write: bool = parser.parse_args().write
    built = generate()
    if write:
        STUB.write_text(built, encoding="utf-8")
        print(f"stubs: wrote {STUB.name}")
        return 0
    committed = STUB.read_text(encoding="utf-8") if STUB.exists() else ""
    if built == committed:
        print(f"stubs: {STUB.name} is what the extension gives")
        return 0
    difference = difflib.unified_diff(
        committed.splitlines(), built.splitlines(), "committed", "built", lineterm=""
    )
    print("\n".join(difference))
    print(f"stubs: {STUB.name} is stale; `make stubs` writes it")
    return 1


if __name__ == "__main__":
    sys.exit(main())
