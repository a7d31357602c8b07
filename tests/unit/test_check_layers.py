"""The layer check finds each kind of wrong arrow and passes the right ones."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_layers


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty project with every module folder in place."""
    for module in check_layers.CPP_ARROWS:
        (tmp_path / "src" / "niskin" / module).mkdir(parents=True)
    (tmp_path / "python" / "niskin" / "train").mkdir(parents=True)
    return tmp_path


def write(root: Path, path: str, text: str) -> None:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text, encoding="utf-8")


def messages(root: Path) -> list[str]:
    found = [*check_layers.check_cpp(root), *check_layers.check_python(root)]
    return [f"{found_one.line}: {found_one.message}" for found_one in found]


def test_include_along_the_arrows_passes(tree: Path) -> None:
    write(
        tree,
        "src/niskin/loader/executor.cpp",
        '#include "niskin/loader/executor.h"\n#include <thread>\n#include "niskin/zarr/array.h"\n',
    )
    write(tree, "src/niskin/plan/fields.h", '#include <vector>\n#include "niskin/base/box.h"\n')
    assert messages(tree) == []


@pytest.mark.parametrize(
    ("module", "other"),
    [("zarr", "plan"), ("kernels", "zarr"), ("base", "zarr"), ("plan", "loader")],
)
def test_include_against_the_arrows_fails(tree: Path, module: str, other: str) -> None:
    write(tree, f"src/niskin/{module}/x.h", f'#pragma once\n#include "niskin/{other}/y.h"\n')
    (message,) = messages(tree)
    assert message.startswith(f"2: includes niskin/{other}/y.h: {module}/ ")


def test_tests_follow_the_arrows_too_but_may_start_threads(tree: Path) -> None:
    write(tree, "src/niskin/base/x_test.cpp", '#include <thread>\n#include "niskin/zarr/a.h"\n')
    assert messages(tree) == ["2: includes niskin/zarr/a.h: base/ stands alone"]


def test_relative_include_fails(tree: Path) -> None:
    write(tree, "src/niskin/zarr/a.cpp", '#include "../base/box.h"\n')
    (message,) = messages(tree)
    assert 'write our headers as "niskin/<module>/<name>.h"' in message


def test_threads_outside_the_loader_fail(tree: Path) -> None:
    write(tree, "src/niskin/zarr/a.cpp", "#include <thread>\n")
    assert messages(tree) == ["1: includes <thread>: only loader/ starts threads or waits"]


def test_clock_in_the_plan_fails(tree: Path) -> None:
    write(tree, "src/niskin/plan/a.cpp", "#include <chrono>\n")
    (message,) = messages(tree)
    assert message.startswith("1: includes <chrono>: planning is a value")


def test_new_folder_must_be_declared(tree: Path) -> None:
    (tree / "src" / "niskin" / "extra").mkdir()
    assert messages(tree) == ["1: is no module; add it to CPP_ARROWS"]


def test_cmake_dependency_against_the_arrows_fails(tree: Path) -> None:
    write(
        tree,
        "src/niskin/kernels/CMakeLists.txt",
        "niskin_module(kernels\n  SOURCES a.cpp\n  DEPENDS base plan\n  LIBRARIES fmt::fmt)\n",
    )
    assert messages(tree) == ["3: depends on plan: kernels/ may include base"]


@pytest.mark.parametrize(
    "line",
    ["import niskin.train.model", "from niskin import train", "from niskin.train import model",
     "from .train.model import UNet", "def f():\n    from niskin.cli import app"],
)  # fmt: skip
def test_package_must_not_import_what_stands_on_it(tree: Path, line: str) -> None:
    write(tree, "python/niskin/shard.py", line + "\n")
    (message,) = messages(tree)
    assert "which stands above it" in message


def test_trainer_may_import_the_package_and_torch(tree: Path) -> None:
    write(tree, "python/niskin/train/model.py", "import torch\nfrom niskin import shard\n")
    write(tree, "python/niskin/cli/train.py", "from niskin.train.model import UNet\n")
    assert messages(tree) == []


@pytest.mark.parametrize("name", ["batch", "cli/train", "__init__"])
def test_torch_at_import_fails_below_the_trainer(tree: Path, name: str) -> None:
    write(
        tree, f"python/niskin/{name}.py", "try:\n    import torch\nexcept ImportError:\n    pass\n"
    )
    (message,) = messages(tree)
    assert message.startswith("2: ")
    assert "imports torch at import" in message


def test_torch_for_annotations_or_inside_a_function_passes(tree: Path) -> None:
    write(
        tree,
        "python/niskin/batch.py",
        "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    import torch\n"
        "    from niskin.train import model\n\n\n"
        "def move():\n    from torch import cuda\n    return cuda\n",
    )
    assert messages(tree) == []


def test_main_prints_the_place_and_fails(tree: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check_layers.main([str(tree)]) == 0
    write(tree, "src/niskin/base/box.h", '\n#include "niskin/zarr/a.h"\n')
    assert check_layers.main([str(tree)]) == 1
    assert "src/niskin/base/box.h:2: includes niskin/zarr/a.h" in capsys.readouterr().out
