"""`niskin train`: trains an emulator as a configuration file says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from .cores import wait_passively

__all__ = ["train"]


def train(
    config: Annotated[Path, typer.Argument(help="YAML file; examples/train.yaml is one.")],
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the result as JSON instead of a table.")
    ] = False,
) -> None:
    """Trains the small emulator on the sources of CONFIG and writes its checkpoints."""
    from rich.console import Console

    from niskin.config_file import load_config

    settings = load_config(config)  # before torch is imported: a typo is told at once
    wait_passively()
    from niskin.train import Trainer

    from .training_view import TrainingBar, epoch_table

    with TrainingBar(Console(stderr=True)) as bar:
        result = Trainer(settings, observer=bar).run()
    if as_json:
        typer.echo(json.dumps(result.as_dict(), indent=2))
        return
    console = Console()
    console.print(epoch_table(result.epochs))
    if result.inference is not None:
        model, persistence = result.inference.model[-1], result.inference.persistence[-1]
        console.print(
            f"rollout over {len(result.inference.model)} steps: RMSE at the last step "
            f"{model:.3f} (persistence {persistence:.3f}), normalized units"
        )
    console.print(f"checkpoint: {result.checkpoint}", soft_wrap=True)
