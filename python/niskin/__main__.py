"""`python -m niskin` is the command `niskin`."""

from __future__ import annotations

from niskin.cli import app

if __name__ == "__main__":
    app(prog_name="niskin")
