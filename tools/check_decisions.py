"""Checks docs/decisions: numbered without a hole, each page with its four sections, all indexed."""

from __future__ import annotations

import re
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "decisions"
# The decisions that the design started with; pages may be added, never removed.
AT_LEAST = 13
SECTIONS = ("## Context", "## Decision", "## Rejected", "## Revisit when")


def problems(folder: Path) -> list[str]:
    """What is wrong with the pages of a folder, one line each; empty when nothing is."""
    found = []
    pages = sorted(folder.glob("[0-9]*.md"))
    numbers = [int(page.name.split("-")[0]) for page in pages]
    if numbers != list(range(1, len(pages) + 1)):
        found.append(f"{folder.name}: numbers are {numbers}, expected 1, 2, 3 … once each")
    if len(pages) < AT_LEAST:
        found.append(f"{folder.name}: {len(pages)} pages, expected at least {AT_LEAST}")
    index = (folder / "README.md").read_text(encoding="utf-8")
    for page in pages:
        if re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", page.name) is None:
            found.append(f"{page.name}: expected NNNN-title-in-small-letters.md")
        text = page.read_text(encoding="utf-8")
        headings = tuple(line for line in text.splitlines() if line.startswith("## "))
        if headings != SECTIONS:
            found.append(f"{page.name}: sections are {headings}, expected {SECTIONS}")
        if f"]({page.name})" not in index:
            found.append(f"{page.name}: README.md does not link it")
    return found


def main() -> int:
    """0 when the pages are in order, 1 otherwise."""
    found = problems(FOLDER)
    for problem in found:
        print(problem)
    print("decisions: out of order" if found else "decisions: every page in order")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
