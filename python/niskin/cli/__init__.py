"""The command `niskin`: one file per command, registered here.

Exit codes: 0 done, 1 failed or unequal, 2 wrong usage, 130 interrupted. Results go to standard
output, progress and errors to standard error.
"""

from __future__ import annotations

import typer

from .demo import demo
from .outcome import guarded
from .sample_store import sample_store
from .train import train

__all__ = ["app"]

app = typer.Typer(
    name="niskin",
    help="Feeds ocean-emulator training from OM4-shaped Zarr stores.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("demo")(guarded(demo))
app.command("train")(guarded(train))
app.command("sample-store")(guarded(sample_store))
