from __future__ import annotations

import json
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Annotated

import pytest
import typer
import yaml
from typer.testing import CliRunner

from niskin.cli import app
from niskin.cli.outcome import guarded
from niskin.errors import DecodeError, FormatError, StoreError, UsageError
from stores import tiny_store

runner = CliRunner()


def failing(error: BaseException) -> typer.Typer:
    """A program whose only command raises `error`."""
    program = typer.Typer()

    def command(name: Annotated[str, typer.Option(help="Anything.")] = "x") -> None:
        raise error

    program.command()(guarded(command))
    return program


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("a: b"), 2),
        (StoreError("a: b"), 1),
        (FormatError("a: b"), 1),
        (DecodeError("a: b"), 1),
    ],
)
def test_an_error_is_its_message_and_an_exit_code(error: Exception, code: int) -> None:
    result = runner.invoke(failing(error), [])
    assert result.exit_code == code
    assert result.stderr == f"{type(error).__name__}: a: b\n"
    assert result.stdout == ""


def test_a_warning_is_its_message() -> None:
    program = typer.Typer()

    def command() -> None:
        warnings.warn("a: b", UserWarning, stacklevel=1)

    program.command()(guarded(command))
    assert runner.invoke(program, []).stderr == "warning: a: b\n"


def test_debug_lets_the_error_through() -> None:
    result = runner.invoke(failing(StoreError("a: b")), ["--debug"])
    assert isinstance(result.exception, StoreError)


def test_an_interrupt_has_an_exit_code_of_its_own() -> None:
    result = runner.invoke(failing(KeyboardInterrupt()), [])
    assert (result.exit_code, result.stderr) == (130, "interrupted\n")


def test_a_missing_extra_is_named() -> None:
    error = ModuleNotFoundError("No module named 'torch'", name="torch")
    result = runner.invoke(failing(error), [])
    assert (result.exit_code, result.stderr) == (
        1,
        "torch is not installed: pip install 'niskin[train]'\n",
    )


def test_a_fault_of_the_program_keeps_its_traceback() -> None:
    assert isinstance(runner.invoke(failing(ZeroDivisionError()), []).exception, ZeroDivisionError)


def test_every_command_has_json_and_debug() -> None:
    for command in ("demo", "train", "sample-store"):
        found = runner.invoke(app, [command, "--help"], env={"COLUMNS": "120"}).stdout
        assert "--json" in found, command
        assert "--debug" in found, command


def test_an_unknown_option_is_wrong_usage() -> None:
    assert runner.invoke(app, ["train", "--nothing"]).exit_code == 2


def test_the_help_needs_no_torch() -> None:
    code = (
        "import sys; from niskin.cli import app\n"
        "try: app(['--help'])\n"
        "except SystemExit: pass\n"
        "sys.exit(any(m in sys.modules for m in ('torch', 'matplotlib')))"
    )
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, timeout=60)


def test_a_typo_in_a_configuration_is_told_with_the_place(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text("data: {mask_fil_value: 0}\n")
    result = runner.invoke(app, ["train", str(path)])
    assert result.exit_code == 2
    assert "masked_fill_value" in result.stderr


def test_train_prints_json_and_writes_checkpoints(tmp_path: Path) -> None:
    tiny_store(tmp_path, rows=20, ny=4, nx=6, levels=1)
    source = {
        "data_location": "OM4.zarr",
        "data_means_location": "OM4_means.zarr",
        "data_stds_location": "OM4_stds.zarr",
        "prognostic_vars_key": ["thetao_0", "zos"],
        "train_time": {"start": "1958-01-03", "end": "1958-02-22"},
        "val_time": {"start": "1958-02-27", "end": "1958-04-08"},
    }
    config = {
        "experiment": {"data_root": str(tmp_path), "output_dir": str(tmp_path / "runs")},
        "data": {"sources": [source], "loading": {"type": "cpu", "num_workers": 0}},
        "model": {"widths": [4]},
        "epochs": 1,
        "steps": [1],
        "device": "cpu",
    }
    path = tmp_path / "train.yaml"
    path.write_text(yaml.safe_dump(config))
    result = runner.invoke(app, ["train", str(path), "--json"])
    assert result.exit_code == 0, result.stderr
    printed = json.loads(result.stdout)
    assert [epoch["epoch"] for epoch in printed["epochs"]] == [1]
    assert Path(printed["checkpoint"]).is_file()
    table = runner.invoke(app, ["train", str(path)])
    assert "waiting for data" in table.stdout


def test_a_store_that_is_not_there_ends_with_1(tmp_path: Path) -> None:
    example = (Path(__file__).parents[2] / "examples" / "train.yaml").read_text()
    path = tmp_path / "train.yaml"
    path.write_text(example.replace("data_root: data", f"data_root: {tmp_path}/none"))
    result = runner.invoke(app, ["train", str(path)])
    assert result.exit_code == 1
    assert "StoreError" in result.stderr
    assert "Traceback" not in result.stderr
