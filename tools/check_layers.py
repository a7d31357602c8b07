"""Fails on an include or import against the layers that HACKING.md draws.

C++: a module of src/niskin may include only the modules below it, may name only those as CMake
dependencies, and may use a few standard headers only where the design puts them (threads in
loader/, no clock and no I/O in plan/). Python: the trainer, the demo and the commands stand on the
package, never the reverse, and nothing below the trainer imports torch when it is imported itself.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# What each C++ module may include besides itself.
CPP_ARROWS: dict[str, frozenset[str]] = {
    "base": frozenset(),
    "zarr": frozenset({"base"}),
    "plan": frozenset({"zarr", "base"}),
    "kernels": frozenset({"base"}),
    "loader": frozenset({"plan", "kernels", "zarr", "base"}),
}

# Standard headers that a module's own code (not its tests) must not include, and why.
THREAD_HEADERS = frozenset(
    {"thread", "future", "condition_variable", "semaphore", "latch", "barrier", "stop_token"}
)
# base/mutex.h wraps this one with lock annotations.
WRAPPED = frozenset({("base", "condition_variable")})
OUTSIDE_LOADER = "only loader/ starts threads or waits"
PURE_HEADERS = frozenset({"chrono", "random", "fstream", "filesystem", "iostream", "mutex"})
PURE_PLAN = "planning is a value: no I/O, no clock, no randomness, no locks"

# Python: groups of modules from the bottom up. A module may import its own group and those below.
PYTHON_GROUPS: tuple[tuple[str, ...], ...] = (("",), ("train",), ("demo",), ("cli", "__main__"))
# Groups that may import torch at module level; `niskin` itself must work without it.
TORCH_GROUPS = frozenset({1, 2})

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
DEPENDS = re.compile(r"\bDEPENDS\b([^)]*?)(?=\b(?:SOURCES|LIBRARIES|TESTS|TEST_LIBRARIES)\b|\))")


@dataclass(frozen=True, kw_only=True, slots=True)
class Violation:
    """One line that points the wrong way."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def _allowed(module: str) -> str:
    below = sorted(CPP_ARROWS[module])
    return f"{module}/ may include {', '.join(below)}" if below else f"{module}/ stands alone"


def check_cpp_file(path: Path, module: str) -> Iterator[Violation]:
    """Yields the includes of one file of src/niskin/<module> that break a rule."""
    is_test = path.stem.endswith("_test")
    for number, text in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = INCLUDE.match(text)
        if match is None:
            continue
        quote, header = match.groups()
        message = None
        if header.startswith("niskin/"):
            other = header.split("/")[1]
            if other not in CPP_ARROWS:
                message = f"includes {header}: no module is called {other}"
            elif other != module and other not in CPP_ARROWS[module]:
                message = f"includes {header}: {_allowed(module)}"
        elif quote == '"':
            message = f'includes "{header}": write our headers as "niskin/<module>/<name>.h"'
        elif (module, header) in WRAPPED:
            continue
        elif not is_test and module != "loader" and header in THREAD_HEADERS:
            message = f"includes <{header}>: {OUTSIDE_LOADER}"
        elif not is_test and module == "plan" and header in PURE_HEADERS:
            message = f"includes <{header}>: {PURE_PLAN}"
        if message is not None:
            yield Violation(path=path, line=number, message=message)


def check_cmake_file(path: Path, module: str) -> Iterator[Violation]:
    """Yields the CMake dependencies of one module that no arrow allows."""
    text = path.read_text(encoding="utf-8")
    for match in DEPENDS.finditer(text):
        line = text.count("\n", 0, match.start()) + 1
        for other in match.group(1).split():
            if other not in CPP_ARROWS[module]:
                yield Violation(
                    path=path, line=line, message=f"depends on {other}: {_allowed(module)}"
                )


def check_cpp(root: Path) -> Iterator[Violation]:
    """Yields what breaks a rule under root/src/niskin."""
    for folder in sorted(entry for entry in (root / "src" / "niskin").iterdir() if entry.is_dir()):
        if folder.name not in CPP_ARROWS:
            yield Violation(path=folder, line=1, message="is no module; add it to CPP_ARROWS")
            continue
        for path in sorted(folder.rglob("*")):
            if path.suffix in {".h", ".cpp"}:
                yield from check_cpp_file(path, folder.name)
            elif path.name == "CMakeLists.txt":
                yield from check_cmake_file(path, folder.name)


def _group_of(module: str) -> int:
    """The group of a dotted module name such as `niskin.train.model`."""
    first = module.split(".")[1] if "." in module else ""
    for index, names in enumerate(PYTHON_GROUPS):
        if first in names:
            return index
    return 0


def _imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[tuple[int, str, bool]]:
    """Yields (line, absolute module name, runs when the module itself is imported)."""

    def visit(node: ast.AST, at_import: bool) -> Iterator[tuple[int, str, bool]]:
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name, at_import
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                keep = len(module.split(".")) - node.level + (1 if is_package else 0)
                base = ".".join([*module.split(".")[:keep], *([base] if base else [])])
            # `from niskin import train` imports a module as much as `import niskin.train` does.
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}", at_import
        elif isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            # Imports for annotations alone; a type may be named against the arrows.
            for statement in node.orelse:
                yield from visit(statement, at_import)
        else:
            deferred = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
            for child in ast.iter_child_nodes(node):
                yield from visit(child, at_import and not deferred)

    yield from visit(tree, True)


def check_python(root: Path) -> Iterator[Violation]:
    """Yields what breaks a rule under root/python/niskin."""
    for path in sorted((root / "python" / "niskin").rglob("*.py")):
        parts = path.relative_to(root / "python").with_suffix("").parts
        is_package = parts[-1] == "__init__"
        module = ".".join(parts[:-1] if is_package else parts)
        group = _group_of(module)
        tree = ast.parse(path.read_text(encoding="utf-8"), filename=str(path))
        for line, name, at_import in _imports(tree, module, is_package):
            top = name.split(".")[0]
            if top == "niskin" and _group_of(name) > group:
                message = f"{module} imports {name}, which stands above it"
            elif top == "torch" and at_import and group not in TORCH_GROUPS:
                message = (
                    f"{module} imports torch at import; import it in the function that uses it"
                )
            else:
                continue
            yield Violation(path=path, line=line, message=message)


def main(arguments: list[str] | None = None) -> int:
    """Prints each violation; 0 when there is none, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "root", nargs="?", type=Path, default=Path(__file__).resolve().parent.parent
    )
    root: Path = parser.parse_args(arguments).root
    violations = [*check_cpp(root), *check_python(root)]
    for violation in violations:
        print(violation)
    print(f"layers: {len(violations)} violations" if violations else "layers: every arrow holds")
    return 1 if violations else 0


if __name__ == "__main__":
    sys.exit(main())
