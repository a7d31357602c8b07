"""Two libraries in one process, torch and other users of the codecs among them, in any order."""

from __future__ import annotations

from pathlib import Path

import pytest

from process import run_script
from stores import tiny_store

READ = """
root = sys.argv[1]
paths = [f"{root}/{name}.zarr" for name in ("OM4", "OM4_means", "OM4_stds")]
source = niskin.open_om4(*paths, prognostic=["zos"], boundary=["hfds"])
shard = niskin.TrainingShard(source, hist=0, steps=1)
schedule = [[0], [1]]
with niskin.NativeLoader([shard], schedule) as ours, niskin.CpuLoader([shard], schedule) as theirs:
    same = [a[0].label.equal(b[0].label) for a, b in zip(ours, theirs, strict=True)]
print(same, torch.ones(2, 2).mm(torch.ones(2, 2)).sum().item())
"""


@pytest.mark.parametrize("order", ["niskin, torch, numcodecs", "torch, numcodecs, niskin"])
def test_any_order_of_imports_reads_the_same(tmp_path: Path, order: str) -> None:
    tiny_store(tmp_path, levels=1, rows=3, codec="blosc-zstd")
    done = run_script(f"import sys, {order}\n{READ}", tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "[True, True] 8.0\n", "")
