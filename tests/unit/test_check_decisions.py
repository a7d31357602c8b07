"""The decision check names a hole, a missing section and a page that nobody links."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools import check_decisions

PAGE = "# Title\n\n## Context\n\n## Decision\n\n## Rejected\n\n## Revisit when\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    names = [f"{number:04}-title.md" for number in range(1, check_decisions.AT_LEAST + 1)]
    for name in names:
        (tmp_path / name).write_text(PAGE, encoding="utf-8")
    index = "".join(f"- [title]({name})\n" for name in names)
    (tmp_path / "README.md").write_text(index, encoding="utf-8")
    return tmp_path


def test_pages_in_order_pass(folder: Path) -> None:
    assert check_decisions.problems(folder) == []


def test_hole_in_the_numbers_is_named(folder: Path) -> None:
    (folder / "0004-title.md").unlink()
    first, second = check_decisions.problems(folder)
    assert "numbers are [1, 2, 3, 5," in first
    assert "12 pages, expected at least 13" in second


def test_missing_section_is_named(folder: Path) -> None:
    (folder / "0002-title.md").write_text(PAGE.replace("## Rejected", "## Other"), encoding="utf-8")
    (problem,) = check_decisions.problems(folder)
    assert problem.startswith("0002-title.md: sections are")


def test_page_outside_the_index_is_named(folder: Path) -> None:
    (folder / "0014-new.md").write_text(PAGE, encoding="utf-8")
    assert check_decisions.problems(folder) == ["0014-new.md: README.md does not link it"]
