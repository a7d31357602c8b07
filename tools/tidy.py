"""Runs clang-tidy over the C++ sources of a build, the tests left out, one process per core.

A source whose text, headers and settings are those of its last clean run is not checked again;
the record lies in the build folder.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (ROOT / "src" / "niskin", ROOT / "python" / "bindings")


def sources(build: Path) -> list[Path]:
    """The checked sources in the compilation database of a build, sorted."""
    database = json.loads((build / "compile_commands.json").read_text(encoding="utf-8"))
    paths = {(Path(entry["directory"]) / entry["file"]).resolve() for entry in database}
    return sorted(
        path
        for path in paths
        if any(path.is_relative_to(folder) for folder in FOLDERS)
        and not path.stem.endswith("_test")
    )


def common_digest(build: Path) -> str:
    """A digest of everything that any source's result depends on, except the source itself."""
    digest = hashlib.sha256()
    headers = (header for folder in FOLDERS for header in folder.rglob("*.h"))
    for path in [ROOT / ".clang-tidy", build / "compile_commands.json", *sorted(headers)]:
        digest.update(path.read_bytes())
    return digest.hexdigest()


def tidy(build: Path, path: Path) -> tuple[bool, str]:
    """Checks one source: whether it is clean, and what clang-tidy printed."""
    # The database holds the flags of the compiler that built it, which may be GCC. Clang alone can
    # check which lock guards what.
    extra = ["--extra-arg=-Wno-unknown-warning-option", "--extra-arg=-Wthread-safety"]
    command = ["clang-tidy", "--quiet", "-p", str(build), *extra, str(path)]
    result = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, check=False)
    return result.returncode == 0, result.stdout + ("" if result.stdout else result.stderr)


def main() -> int:
    """0 when every source is clean, 1 otherwise."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build", type=Path, help="a build folder with compile_commands.json")
    build = parser.parse_args().build.resolve()
    record_path = build / "clean-tidy.json"
    record = json.loads(record_path.read_text(encoding="utf-8")) if record_path.exists() else {}
    common = common_digest(build)
    digests = {
        path: hashlib.sha256(common.encode() + path.read_bytes()).hexdigest()
        for path in sources(build)
    }
    due = [path for path, digest in digests.items() if record.get(str(path)) != digest]
    failed = 0
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as executor:
        for path, (clean, output) in zip(
            due, executor.map(lambda path: tidy(build, path), due), strict=True
        ):
            if clean:
                record[str(path)] = digests[path]
            else:
                failed += 1
                print(f"{path.relative_to(ROOT)}:\n{output}")
    record_path.write_text(json.dumps(record, indent=1), encoding="utf-8")
    print(f"clang-tidy: {len(digests)} sources, {len(due)} checked, {failed} with findings")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
