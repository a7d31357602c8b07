"""What a batch costs: reads, bytes, decodes and chunks, against numbers derived by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from niskin import NativeLoader, StoreError, TrainingShard, numpy_batches
from same_bits import assert_same_batches
from stores import TinyStore, copy_of, tiny_store

PROGNOSTIC = ("thetao_0", "thetao_1", "thetao_2", "so_0", "zos")
BOUNDARY = ("tauuo", "hfds")
PLANE = 4 * 6 * 4  # bytes of a float32 plane of 4 x 6 cells


def shard_of(store: TinyStore, **options: Any) -> TrainingShard:
    source = store.open(prognostic=PROGNOSTIC, boundary=BOUNDARY)
    return TrainingShard(source, **({"hist": 1, "steps": 2} | options))


def work(shard: TrainingShard, schedule: Any, **options: Any) -> dict[str, int]:
    names = ("reads", "bytes_read", "decodes", "chunks", "absent_chunks")
    with NativeLoader([shard], schedule, **options) as loader:
        batches = list(loader)
        stats = loader.stats()
    by_batch = {name: sum(int(batch.stats[name]) for batch in batches) for name in names}
    assert by_batch == {name: stats[name] for name in names}
    assert stats["bytes_delivered"] == sum(t.nbytes for b in batches for step in b for t in step)
    return by_batch


def counts(*, reads: int, bytes_read: int, decodes: int, chunks: int) -> dict[str, int]:
    return {
        "reads": reads, "bytes_read": bytes_read, "decodes": decodes, "chunks": chunks,
        "absent_chunks": 0,
    }  # fmt: skip


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> TinyStore:
    return tiny_store(tmp_path_factory.mktemp("flat"), rows=20)


# Samples 0 and 1, h = 1, S = 2, d = 1: input and label rows 0-5 and 1-6, boundary rows 0-3 and 1-4.
# So 7 prognostic and 5 boundary rows, each once for 5 and 2 channels.
NEIGHBOURS = 7 * 5 + 5 * 2


@pytest.mark.parametrize("writable", [False, True])
@pytest.mark.parametrize("schedule", [[[0, 1]], [[1, 0]], [[0, 1, 0, 1, 1]]])
def test_each_plane_is_read_once_however_often_it_is_used(
    flat: TinyStore, schedule: Any, writable: bool
) -> None:
    expected = counts(reads=NEIGHBOURS, bytes_read=NEIGHBOURS * PLANE, decodes=0, chunks=NEIGHBOURS)
    assert work(shard_of(flat), schedule, writable=writable) == expected


def test_a_longer_rollout_reads_each_row_once(flat: TinyStore) -> None:
    # One sample, h = 1, S = 4: rows 0-9 and, for the boundary, 0-7.
    planes = 10 * 5 + 8 * 2
    expected = counts(reads=planes, bytes_read=planes * PLANE, decodes=0, chunks=planes)
    assert work(shard_of(flat, steps=4), [[0]]) == expected


def test_a_stride_reads_only_its_own_rows(flat: TinyStore) -> None:
    # h = 1, S = 1, d = 3: sample 0 has rows 0, 3, 6, 9 and sample 3 has 3, 6, 9, 12; boundary 0, 3
    # and 3, 6.
    planes = 5 * 5 + 3 * 2
    expected = counts(reads=planes, bytes_read=planes * PLANE, decodes=0, chunks=planes)
    assert work(shard_of(flat, steps=1, stride=3), [[0, 3]]) == expected


def test_nothing_is_kept_from_one_batch_to_the_next(flat: TinyStore) -> None:
    once = work(shard_of(flat), [[0, 1]])
    twice = work(shard_of(flat), [[0, 1], [0, 1]])
    assert twice == {name: 2 * value for name, value in once.items()}


def test_a_channel_that_is_input_and_boundary_is_read_once(flat: TinyStore) -> None:
    source = flat.open(prognostic=("zos", "hfds"), boundary=("hfds",))
    # Rows 0-5 of zos and hfds; the boundary's rows 0-3 of hfds are among them.
    planes = 6 * 2
    expected = counts(reads=planes, bytes_read=planes * PLANE, decodes=0, chunks=planes)
    assert work(TrainingShard(source, hist=1, steps=2), [[0]]) == expected


@pytest.mark.parametrize("layout", ["compact", "compact-time-first"])
@pytest.mark.parametrize("codec", ["lz4", "zstd", "blosc-lz4", "blosc-zstd"])
def test_a_chunk_of_all_levels_is_read_and_decoded_once(
    tmp_path: Path, layout: Any, codec: Any
) -> None:
    store = tiny_store(tmp_path, layout=layout, codec=codec, levels=19, ny=2, nx=3)
    names: dict[str, Any] = {"boundary": BOUNDARY}
    one = store.open(prognostic=("thetao_3",), **names)
    all_levels = store.open(prognostic=tuple(f"thetao_{k}" for k in range(19)), **names)
    seen = []
    for source in (one, all_levels):
        shard = TrainingShard(source, hist=1, steps=2)
        seen.append(work(shard, [[0, 1]]))
        # thetao rows 0-6, tauuo and hfds rows 0-4: a chunk each, whatever the number of levels. The
        # stored bytes of a chunk are read in one go, also where only a part is decoded.
        keys = [
            f"thetao/0.{r}.0.0" if layout == "compact" else f"thetao/{r}.0.0.0" for r in range(7)
        ]
        keys += [f"{name}/{row}.0.0" for name in BOUNDARY for row in range(5)]
        stored = sum((store.data / key).stat().st_size for key in keys)
        assert seen[-1] == counts(reads=17, bytes_read=stored, decodes=17, chunks=17)
    assert seen[0] == seen[1]


def test_wanted_levels_of_an_uncompressed_chunk_are_read_alone(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, layout="compact", levels=19, ny=2, nx=3)
    source = store.open(prognostic=("thetao_3", "thetao_4", "thetao_9"), boundary=("hfds",))
    # 6 rows, a chunk each: levels 3 and 4 as one range, level 9 as another. 4 rows of hfds.
    planes = 6 * 3 + 4
    expected = counts(reads=6 * 2 + 4, bytes_read=planes * 24, decodes=0, chunks=6 + 4)
    assert work(TrainingShard(source, hist=1, steps=2), [[0]]) == expected


def test_chunks_of_a_few_levels_are_left_alone_unless_wanted(tmp_path: Path) -> None:
    store = tiny_store(
        tmp_path, layout="compact", levels=6, levels_per_chunk=2, codec="zstd", ny=2, nx=3
    )
    source = store.open(prognostic=("thetao_0", "thetao_1", "thetao_5"), boundary=("hfds",))
    found = work(TrainingShard(source, hist=0, steps=1), [[0]])
    # 2 rows of the chunks with levels 0-1 and 4-5, not 2-3; 1 row of hfds.
    assert (found["reads"], found["decodes"], found["chunks"]) == (5, 5, 5)


def test_a_chunk_of_several_rows_is_read_once_for_a_batch(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, rows=12, rows_per_chunk=4, codec="zstd")
    found = work(shard_of(store), [[0, 1]])
    # Prognostic rows 0-6 lie in chunks 0 and 1 of 5 arrays, boundary rows 0-4 in those of 2.
    assert (found["reads"], found["decodes"], found["chunks"]) == (14, 14, 14)
    found = work(shard_of(store), [[0], [1]])
    # A batch each: rows 0-5 and 1-6 need two chunks, boundary rows 0-3 only one, 1-4 two.
    assert found["reads"] == 2 * 10 + 1 * 2 + 2 * 2


def test_wanted_rows_of_an_uncompressed_chunk_are_read_alone(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, rows=12, rows_per_chunk=12)
    shard = shard_of(store, hist=0, steps=1, stride=2)
    # Rows 0 and 2 of 5 arrays, two ranges of a chunk each; boundary row 0 of 2 arrays.
    planes = 2 * 5 + 2
    expected = counts(reads=planes, bytes_read=planes * PLANE, decodes=0, chunks=7)
    assert work(shard, [[0]]) == expected
    # Neighbouring rows are one range.
    found = work(shard_of(store, hist=0, steps=1), [[0]])
    assert (found["reads"], found["bytes_read"]) == (5 + 2, planes * PLANE)


def test_tiles_are_read_whole_and_padded(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, ny=5, nx=7, cell_chunks=(2, 4), codec="lz4")
    found = work(shard_of(store), [[0, 1]])
    tiles = 3 * 2
    assert found["chunks"] == found["reads"] == found["decodes"] == NEIGHBOURS * tiles


def test_memory_order_costs_the_whole_chunk(tmp_path: Path) -> None:
    store = tiny_store(tmp_path, layout="compact", order="F", levels=3)
    source = store.open(prognostic=("thetao_1",), boundary=("hfds",))
    # No plane is in one piece: 2 rows of chunks with 3 levels, and 1 row of hfds.
    expected = counts(reads=3, bytes_read=(2 * 3 + 1) * PLANE, decodes=0, chunks=3)
    assert work(TrainingShard(source, hist=0, steps=1), [[0]]) == expected


def test_labels_of_another_store_are_read_for_their_own_rows(
    flat: TinyStore, tmp_path: Path
) -> None:
    fine = tiny_store(tmp_path / "fine", rows=20, ny=8, nx=6, seed=2)
    names: dict[str, Any] = {"prognostic": PROGNOSTIC, "boundary": BOUNDARY}
    shard = TrainingShard(flat.open(**names), fine.open(**names), hist=1, steps=2)
    found = work(shard, [[0]])
    # Input and boundary rows 0-3; label rows 2-5, of planes twice as large.
    assert found["reads"] == 4 * 5 + 4 * 2 + 4 * 5
    assert found["bytes_read"] == (4 * 5 + 4 * 2 + 4 * 5 * 2) * PLANE


def test_labels_of_the_same_store_share_its_chunks(flat: TinyStore) -> None:
    names: dict[str, Any] = {"prognostic": PROGNOSTIC, "boundary": BOUNDARY}
    shard = TrainingShard(flat.open(**names), flat.open(**names), hist=1, steps=2)
    assert shard.separate_labels
    # Input rows 0-3 and label rows 2-5 of one store, opened twice: 6 rows.
    assert work(shard, [[0]])["reads"] == 6 * 5 + 4 * 2


def test_only_what_a_batch_needs_must_exist(flat: TinyStore, tmp_path: Path) -> None:
    """From outside: every chunk that the batch does not need is gone, and nothing changes."""
    store = copy_of(flat, tmp_path / "rest")
    expected = list(numpy_batches([shard_of(flat)], [[8, 9]]))
    needed = {f"{name}/{row}.0.0" for name in PROGNOSTIC for row in range(8, 15)}
    needed |= {f"{name}/{row}.0.0" for name in BOUNDARY for row in range(8, 13)}
    fields = {path.parent.name for path in store.data.glob("*/*.0.0")}
    gone = 0
    shard = shard_of(store)
    for name in fields:
        for path in (store.data / name).glob("*.0.0"):
            if f"{name}/{path.name}" not in needed:
                path.unlink()
                gone += 1
    assert gone == 16 * 20 - NEIGHBOURS
    assert_same_batches(list(numpy_batches([shard], [[8, 9]])), expected)
    (store.data / "zos" / "14.0.0").unlink()
    with pytest.raises(StoreError, match=r"zos: chunk 14\.0\.0 is absent"):
        list(numpy_batches([shard], [[8, 9]]))


def test_bytes_counted_are_bytes_read(tmp_path: Path) -> None:
    """From outside: the kernel's account of this process against the loader's."""
    store = tiny_store(tmp_path, layout="compact", codec="zstd", rows=40, ny=60, nx=90, levels=3)
    shard = shard_of(store)
    schedule = [[first, first + 1] for first in range(0, 34, 2)]
    loader = numpy_batches([shard], schedule)
    list(loader)  # whatever is imported or opened on first use
    counted_before, before = loader.stats()["bytes_read"], _bytes_read_by_this_process()
    list(loader)
    read = _bytes_read_by_this_process() - before
    counted = loader.stats()["bytes_read"] - counted_before
    loader.close()
    assert counted > 2_000_000
    # Beside the chunks there is this account itself.
    assert counted <= read <= counted + 16_000


def _bytes_read_by_this_process() -> int:
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["rchar"])
