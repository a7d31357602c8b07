"""Forks, exits, signals and limits: a process that uses a loader ends when and as it should."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from niskin import Pool, TrainingShard, UsageError, numpy_batches
from process import alarm, run_script
from stores import TinyStore, tiny_store

pytestmark = [pytest.mark.notorch, pytest.mark.timeout(120)]

# What every script starts with: argv[1] is the folder of a tiny store.
LOADER = """
import sys, os, threading
from pathlib import Path
import niskin

root = Path(sys.argv[1])
source = niskin.open_om4(root / "OM4.zarr", root / "OM4_means.zarr", root / "OM4_stds.zarr",
                         prognostic=["thetao_0", "zos"], boundary=["hfds"])
shard = niskin.TrainingShard(source, hist=1, steps=1)
schedule = [[k] for k in range(6)] * 50
loader = niskin.numpy_batches([shard], schedule, prefetch_batches=3)
iterator = iter(loader)
batch = next(iterator)
"""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("store"), levels=1, rows=12)


@pytest.fixture(scope="module")
def shard(store: TinyStore) -> TrainingShard:
    return TrainingShard(store.open(), hist=1, steps=1)


@pytest.mark.parametrize("busy", [False, True])
def test_a_forked_child_is_refused_at_once_and_the_parent_goes_on(
    shard: TrainingShard, busy: bool
) -> None:
    """No wait for threads that do not exist in the child; its destructors join nothing."""
    with Pool(decode_threads=2) as pool:
        loader = numpy_batches(
            [shard], [[k % 6] for k in range(200)], pool=pool, prefetch_batches=8
        )
        iterator = iter(loader)
        first = np.array(next(iterator)[0].prognostic)
        if not busy:
            time.sleep(0.1)
        child = os.fork()
        if child == 0:
            with alarm(20):
                refused = 0
                for call in (lambda: next(iterator), lambda: iter(loader), pool.stats):
                    try:
                        call()
                    except UsageError as error:
                        refused += "fork" in str(error)
                del iterator, call
                loader.close()
                pool.close()
                del loader
                # A loader of its own works.
                with numpy_batches([shard], [[0]], pool=Pool()) as own:
                    same = bool((next(iter(own))[0].prognostic == first).all())
                os._exit(refused * 10 + same)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 31
        assert len(list(iterator)) == 199
        loader.close()


ENDINGS = {
    "falls off the end": ("", 0),
    "sys.exit": ("sys.exit(3)", 3),
    "exception": ("raise SystemExit(4) from ValueError()", 4),
    "os._exit": ("os._exit(5)", 5),
    "views alive at exit": ("import builtins; builtins.kept = batch[0].label; del batch", 0),
    "daemon thread": (
        """
run = lambda: [0 for _ in iterator for _ in range(10**6)]
threading.Thread(target=run, daemon=True).start()
""",
        0,
    ),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_script_ends_with_its_own_exit_code_and_without_noise(
    store: TinyStore, ending: str
) -> None:
    """Whatever is alive at the end, no message, no crash, no wait."""
    code, expected = ENDINGS[ending]
    done = run_script(LOADER + code, store.data.parent, timeout_s=60)
    assert (done.returncode, done.stdout, done.stderr) == (expected, "", "")


def test_ctrl_c_while_a_batch_is_awaited_is_a_keyboard_interrupt(store: TinyStore) -> None:
    script = (
        LOADER
        + """
import signal, time
pool = niskin.Pool(max_concurrent_reads=1, decode_threads=1)
busy = niskin.numpy_batches([shard], [[k % 6] for k in range(10**6)], pool=pool)
print("ready", flush=True)
taken = 0
try:
    for taken, _ in enumerate(busy):
        pass
except KeyboardInterrupt:
    busy.close()
    again = niskin.numpy_batches([shard], [[0]])
    print("interrupted", sum(1 for _ in again), flush=True)
"""
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script, str(store.data.parent)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert (out, err, process.returncode) == ("interrupted 1\n", "", 0)


def test_few_file_descriptors_are_enough(tmp_path: Path) -> None:
    """As many open files as threads and a constant, whatever is kept."""
    store = tiny_store(tmp_path, levels=19, rows=8)  # 77 + 3 arrays
    script = """
import resource, sys
from pathlib import Path
import niskin
root = Path(sys.argv[1])
source = niskin.open_om4(root / "OM4.zarr", root / "OM4_means.zarr", root / "OM4_stds.zarr")
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
shard = niskin.TrainingShard(source, hist=1, steps=1)
loader = niskin.numpy_batches([shard], [[k % 4] for k in range(200)])
kept = list(loader)
print(len(kept), len({b[0].prognostic.tobytes() for b in kept}))
"""
    done = run_script(script, store.data.parent)
    assert (done.returncode, done.stdout, done.stderr) == (0, "200 4\n", "")
