"""Daemon threads that use loaders while the interpreter ends: no abort, no message, no wait."""

from __future__ import annotations

from pathlib import Path

import pytest

from process import run_script
from stores import tiny_store

pytestmark = [pytest.mark.notorch, pytest.mark.timeout(120)]

SCRIPT = """
import atexit, sys, threading
threads = []

@atexit.register  # before niskin's own, so it runs after that
def join():
    for thread in threads:
        thread.join(10)
    print("alive:", sum(thread.is_alive() for thread in threads))

import niskin

root = sys.argv[1]
paths = [f"{root}/{name}.zarr" for name in ("OM4", "OM4_means", "OM4_stds")]
source = niskin.open_om4(*paths, prognostic=["zos", "thetao_0"], boundary=["hfds"])
shard = niskin.TrainingShard(source, hist=0, steps=1)
started = threading.Semaphore(0)

def run():
    schedule = [[k % 4] * 200 for k in range(10**4)]  # each batch takes a while
    while True:
        pool = niskin.Pool(max_concurrent_reads=1, decode_threads=1)
        with niskin.numpy_batches([shard], schedule, pool=pool) as loader:
            for batch in loader:
                started.release()

for _ in range(3):
    threads.append(threading.Thread(target=run, daemon=True))
    threads[-1].start()
for _ in range(5):
    started.acquire()
sys.exit(7)
"""


def test_daemon_threads_leave_the_core_before_the_interpreter_ends(tmp_path: Path) -> None:
    tiny_store(tmp_path, levels=1, rows=6, ny=60, nx=120, codec="zlib")
    done = run_script(SCRIPT, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (7, "alive: 0\n", "")
