"""Reads a training configuration from YAML."""

from __future__ import annotations

import re
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from niskin.config import TrainConfig
from niskin.errors import UsageError, address

__all__ = ["load_config", "parse_config"]


class _Loader(yaml.SafeLoader):
    """SafeLoader that keeps dates as text, knows 1e-3 as a number and refuses a key given twice."""

    # A date of the store's calendar need not exist in Python's (1900-02-29 is a Julian day).
    yaml_implicit_resolvers = {  # noqa: RUF012 (declared so in the base class)
        first: [(tag, regexp) for tag, regexp in entries if tag != "tag:yaml.org,2002:timestamp"]
        for first, entries in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[Hashable] = set()
        for key_node, _ in node.value:
            key = self.construct_object(key_node, deep=True)
            if isinstance(key, Hashable) and key in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"key {key!r} is given twice", problem_mark=key_node.start_mark
                )
            seen.add(key)
        return super().construct_mapping(node, deep)


_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?\d+(\.\d*)?[eE][-+]?\d+"), list("-+0123456789")
)


def load_config(path: str | Path) -> TrainConfig:
    """The configuration in the YAML file `path`.

    Raises UsageError with one line per problem if the file is absent, is not YAML or does not fit.
    """
    try:
        values = yaml.load(Path(path).read_text(encoding="utf-8"), Loader=_Loader)
    except OSError as error:
        raise UsageError(address(f"configuration: {path}: {error.strerror}")) from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise UsageError(address(f"configuration: {path}: not YAML: {error}")) from error
    return parse_config(values, name=str(path))


def parse_config(values: Any, *, name: str = "configuration") -> TrainConfig:
    """The configuration in `values` (mappings, lists and plain values); `name` is for messages.

    Raises UsageError with one line per problem.
    """
    try:
        return TrainConfig.model_validate(values)
    except ValidationError as error:
        problems = [_problem(e["loc"], e["msg"], e["input"]) for e in error.errors()]
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise UsageError("\n".join([f"{name}: {count}", *problems])) from error


def _problem(location: tuple[int | str, ...], message: str, given: Any) -> str:
    where = ""
    for part in location:
        where += f"[{part}]" if isinstance(part, int) else f".{part}" if where else part
    message = message.removeprefix("Value error, ").removeprefix("Input ")
    got = "" if isinstance(given, dict | list | tuple | BaseModel) else f" (got {given!r})"
    return f"  {where or 'top level'}: {message}{got}"
