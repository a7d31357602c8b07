"""`niskin demo`: from an empty directory to a trained emulator, a table and a picture."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .cores import wait_passively
from .outcome import FAILED

__all__ = ["demo"]


def demo(
    quick: Annotated[bool, typer.Option("--quick", help="A smaller demo: about a minute.")] = False,
    out: Annotated[
        Path, typer.Option("--out", help="Directory of the store, the checkpoints and the picture.")
    ] = Path("niskin-demo"),
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON instead of tables.")
    ] = False,
) -> None:
    """Trains an emulator on a sample store and shows what came of it.

    Ends with 1 if the two loaders differ, or if the emulator does not beat both persistence and
    climatology.
    """
    wait_passively()
    from rich.console import Console

    from niskin.demo import FULL, QUICK, run_demo

    from .demo_view import DemoBar, demo_tables

    with DemoBar(Console(stderr=True)) as view:
        result = run_demo(out, QUICK if quick else FULL, view)
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2))
    else:
        console = Console()
        for part in demo_tables(result):
            console.print(part)
        console.print(f"picture: {result.picture}", soft_wrap=True)
    if not result.passed:
        raise typer.Exit(FAILED)
