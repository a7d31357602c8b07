"""How a command ends: exit codes, errors without a traceback, `--debug` for one with it."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Annotated, Any, NoReturn, get_type_hints

import typer

from niskin.errors import DecodeError, FormatError, StoreError, UsageError

__all__ = ["FAILED", "INTERRUPTED", "USAGE", "guarded"]

FAILED, USAGE, INTERRUPTED = 1, 2, 130

_EXTRAS = {"torch": "train", "matplotlib": "plot"}
_Debug = Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")]


def guarded(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with an option --debug more; Niskin's errors become messages and exit codes.

    Other exceptions pass: they are faults of the program and keep their traceback.
    """

    @functools.wraps(command)
    def run(*args: Any, debug: bool = False, **options: Any) -> None:
        try:
            with warnings.catch_warnings():
                if not debug:
                    warnings.showwarning = _warn
                command(*args, **options)
        except (UsageError, StoreError, FormatError, DecodeError) as error:
            if debug:
                raise
            code = USAGE if isinstance(error, UsageError) else FAILED
            _fail(f"{type(error).__name__}: {error}", code)
        except ModuleNotFoundError as error:
            extra = _EXTRAS.get(error.name or "")
            if debug or extra is None:
                raise
            _fail(f"{error.name} is not installed: pip install 'niskin[{extra}]'", FAILED)
        except KeyboardInterrupt:
            if debug:
                raise
            _fail("interrupted", INTERRUPTED)

    # typer reads names, types and defaults from here.
    hints = get_type_hints(command, include_extras=True)
    parameters = [
        p.replace(annotation=hints.get(name, p.annotation))
        for name, p in inspect.signature(command).parameters.items()
    ]
    parameters.append(
        inspect.Parameter("debug", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Debug)
    )
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {p.name: p.annotation for p in parameters}
    return run


def _warn(message: Warning | str, *_: object, **__: object) -> None:
    """Shows a warning as its message, without the line of source that gave it."""
    typer.echo(f"warning: {message}", err=True)


def _fail(message: str, code: int) -> NoReturn:
    typer.echo(message, err=True)
    raise typer.Exit(code)
