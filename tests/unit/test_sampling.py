from __future__ import annotations

import random
from dataclasses import dataclass

import pytest

from niskin.errors import UsageError
from niskin.sampling import BatchSampler, DistributedBatchSampler

Batches = list[list[int]]


@dataclass(frozen=True)
class Samples:
    """A stand-in for a shard: a number of samples and a key."""

    count: int
    key: object

    def __len__(self) -> int:
        return self.count


def two_groups() -> list[Samples]:
    return [Samples(7, "a"), Samples(5, "b")]


def single(shuffle: bool, drop_last: bool, seed: int = 15) -> BatchSampler:
    return BatchSampler(two_groups(), batch_size=2, shuffle=shuffle, drop_last=drop_last, seed=seed)


def ranks(
    count: int, shuffle: bool, drop_last: bool, epoch: int = 0, shards: list[Samples] | None = None
) -> list[Batches]:
    schedules = []
    for rank in range(count):
        sampler = DistributedBatchSampler(
            shards or two_groups(), batch_size=2, rank=rank, world_size=count, shuffle=shuffle,
            drop_last=drop_last, seed=15,
        )  # fmt: skip
        schedules.append(sampler.schedule(epoch))
    return schedules


def test_generator_is_the_one_the_schedules_are_defined_by() -> None:
    first = {15: [4145683452, 897563738, 50056527, 2239039009],
             16: [1552728491, 2015295599, 2063648756, 1223779797],
             2**32 + 5: [675479763, 2085189291]}  # fmt: skip
    for seed, expected in first.items():
        generator = random.Random(seed)
        assert [generator.getrandbits(32) for _ in expected] == expected
    for seed, order in {
        16: [6, 4, 0, 9, 1, 3, 2, 8, 7, 5],
        0: [7, 8, 1, 5, 3, 4, 2, 0, 9, 6],
    }.items():
        sampler = BatchSampler([Samples(10, 0)], batch_size=10, shuffle=True, seed=seed)
        assert sampler.schedule() == [order]


def test_single_process_in_order() -> None:
    kept = [[0, 1], [2, 3], [4, 5], [6], [7, 8], [9, 10], [11]]
    assert list(single(shuffle=False, drop_last=False)) == kept
    assert list(single(shuffle=False, drop_last=True)) == [b for b in kept if len(b) == 2]


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, [[9, 11], [8, 10], [6, 2], [3, 5], [4, 0]]),
        (1, [[5, 3], [11, 9], [4, 0], [8, 7], [1, 6]]),
        (2, [[5, 0], [7, 9], [2, 3], [8, 10], [1, 6]]),
    ],
)
def test_single_process_shuffled_dropping(epoch: int, expected: Batches) -> None:
    assert single(shuffle=True, drop_last=True).schedule(epoch) == expected


@pytest.mark.parametrize(
    ("epoch", "expected"),
    [
        (0, [[8, 10], [1], [6, 2], [3, 5], [4, 0], [9, 11], [7]]),
        (1, [[2], [5, 3], [11, 9], [4, 0], [10], [8, 7], [1, 6]]),
    ],
)
def test_single_process_shuffled_keeping(epoch: int, expected: Batches) -> None:
    assert single(shuffle=True, drop_last=False).schedule(epoch) == expected


@pytest.mark.parametrize(
    ("count", "shuffle", "drop_last", "epoch", "expected"),
    [
        (2, True, True, 0, [[[7, 8], [0, 1]], [[9, 10], [2, 3]]]),
        (2, True, True, 1, [[[0, 1], [7, 8]], [[2, 3], [9, 10]]]),
        (2, True, False, 0, [[[7, 8], [11], [4, 5], [0, 1]], [[9, 10], [9, 10], [6], [2, 3]]]),
        (2, True, False, 1, [[[7, 8], [4, 5], [0, 1], [11]], [[9, 10], [6], [2, 3], [7, 8]]]),
        (3, False, False, 0,
         [[[0, 1], [6], [7, 8]], [[2, 3], [0, 1], [9, 10]], [[4, 5], [2, 3], [11]]]),
        (3, True, False, 1,
         [[[7, 8], [0, 1], [6]], [[9, 10], [2, 3], [0, 1]], [[11], [4, 5], [6]]]),
    ],
)  # fmt: skip
def test_distributed(
    count: int, shuffle: bool, drop_last: bool, epoch: int, expected: list[Batches]
) -> None:
    assert ranks(count, shuffle, drop_last, epoch) == expected


def test_last_step_is_filled_from_the_first_batches() -> None:
    schedules = ranks(8, False, False, shards=[Samples(20, "a")])
    second = [schedule[1] for schedule in schedules]
    assert second == [[16, 17], [18, 19], [0, 1], [2, 3], [4, 5], [6, 7], [8, 9], [10, 11]]
    flags = [
        DistributedBatchSampler([Samples(20, "a")], batch_size=2, rank=r, world_size=8).padded()
        for r in range(8)
    ]
    assert flags == [[False, False]] * 2 + [[False, True]] * 6


def test_more_ranks_than_batches_repeats_the_pool() -> None:
    schedules = ranks(5, False, False, shards=[Samples(4, "a")])
    assert [schedule[0] for schedule in schedules] == [[0, 1], [2, 3], [0, 1], [2, 3], [0, 1]]


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("batch_size", [1, 2])
@pytest.mark.parametrize("count", range(1, 18))
def test_ranks_agree(count: int, batch_size: int, drop_last: bool, shuffle: bool) -> None:
    samplers = [
        DistributedBatchSampler(
            two_groups(), batch_size=batch_size, rank=r, world_size=count, shuffle=shuffle,
            drop_last=drop_last, seed=7,
        )
        for r in range(count)
    ]  # fmt: skip
    for epoch in (0, 1):
        schedules = [sampler.schedule(epoch) for sampler in samplers]
        assert len({sampler.schedule_hash(epoch) for sampler in samplers}) == 1
        for sampler, schedule in zip(samplers, schedules, strict=True):
            assert len(sampler) == len(schedule) == len(sampler.padded(epoch))
        steps = list(zip(*schedules, strict=True))
        assert [list(step) for step in steps] == samplers[0].global_schedule(epoch)
        for step in steps:
            assert len({index < 7 for batch in step for index in batch}) == 1
        seen = [index for step in steps for batch in step for index in batch]
        if drop_last:
            assert len(set(seen)) == len(seen)
        else:
            assert set(seen) == set(range(12))
        flags = [sampler.padded(epoch) for sampler in samplers]
        real = [
            index
            for schedule, flag in zip(schedules, flags, strict=True)
            for batch, padded in zip(schedule, flag, strict=True)
            if not padded
            for index in batch
        ]
        assert sorted(real) == sorted(set(seen))


def test_epochs_differ_when_shuffled_and_repeat_exactly() -> None:
    sampler = single(shuffle=True, drop_last=True)
    first, again = list(sampler), list(sampler)
    sampler.set_epoch(1)
    assert first == again == sampler.schedule(0)
    assert list(sampler) == sampler.schedule(1) != first
    assert sampler.epoch == 1


def test_schedule_leaves_the_sampler_and_the_process_wide_generator_alone() -> None:
    state = random.getstate()
    sampler = single(shuffle=True, drop_last=False)
    before = list(sampler)
    sampler.schedule(5)
    sampler.schedule_hash(6)
    assert sampler.epoch == 0
    assert list(sampler) == before
    assert random.getstate() == state


def test_a_schedule_may_be_changed_by_its_owner() -> None:
    sampler = DistributedBatchSampler([Samples(4, "a")], batch_size=2, rank=0, world_size=1)
    sampler.schedule()[0].append(99)
    assert sampler.schedule() == [[0, 1], [2, 3]]


def test_groups_stand_in_the_order_their_keys_are_first_seen() -> None:
    shards = [Samples(3, "z"), Samples(2, 7), Samples(3, "z")]
    sampler = BatchSampler(shards, batch_size=4)
    assert list(sampler) == [[0, 1, 2, 5], [6, 7], [3, 4]]
    assert len(sampler) == 3


def test_group_key_replaces_the_key_of_the_shard() -> None:
    sampler = BatchSampler(two_groups(), batch_size=12, group_key=lambda shard: "all")
    assert list(sampler) == [list(range(12))]


def test_schedule_hash_tells_schedules_apart() -> None:
    hashes = {single(True, drop, seed).schedule_hash(e)
              for drop in (True, False) for seed in (1, 2) for e in (5, 9)}  # fmt: skip
    assert len(hashes) == 8
    assert all(len(text) == 64 for text in hashes)
    one = BatchSampler([Samples(4, "a")], batch_size=2)
    two = DistributedBatchSampler([Samples(4, "a")], batch_size=2, rank=0, world_size=2)
    assert one.schedule_hash() != two.schedule_hash()


def test_single_process_is_a_global_schedule_of_one_rank() -> None:
    sampler = single(shuffle=True, drop_last=False)
    assert sampler.global_schedule(2) == [[batch] for batch in sampler.schedule(2)]
    assert sampler.padded() == [False] * len(sampler)


def test_dropping_everything_is_an_empty_schedule() -> None:
    sampler = BatchSampler([Samples(3, "a")], batch_size=4, drop_last=True)
    assert (len(sampler), list(sampler)) == (0, [])
    sampler2 = DistributedBatchSampler(
        [Samples(3, "a")], batch_size=2, rank=1, world_size=2, drop_last=True
    )
    assert (len(sampler2), list(sampler2)) == (0, [])
    assert len(sampler2.schedule_hash()) == 64


@pytest.mark.parametrize("batch_size", [0, -1])
def test_batch_size_below_one_is_refused(batch_size: int) -> None:
    with pytest.raises(UsageError, match=f"batch_size: got {batch_size}, expected at least 1"):
        BatchSampler(two_groups(), batch_size=batch_size)


def test_fractional_batch_size_is_refused() -> None:
    with pytest.raises(TypeError):
        BatchSampler(two_groups(), batch_size=2.5)  # type: ignore[arg-type]


@pytest.mark.parametrize(("rank", "world_size"), [(2, 2), (-1, 2)])
def test_rank_outside_the_world_is_refused(rank: int, world_size: int) -> None:
    with pytest.raises(UsageError, match="Invalid rank"):
        DistributedBatchSampler(two_groups(), batch_size=1, rank=rank, world_size=world_size)


def test_empty_world_is_refused() -> None:
    with pytest.raises(UsageError, match="world_size: got 0"):
        DistributedBatchSampler(two_groups(), batch_size=1, rank=0, world_size=0)


def test_no_shards_are_refused() -> None:
    with pytest.raises(UsageError, match="shards: got none"):
        BatchSampler([], batch_size=1)


def test_keys_that_cannot_be_hashed_are_refused() -> None:
    with pytest.raises(TypeError, match="expected a hashable value"):
        BatchSampler([Samples(2, ["list"])], batch_size=1)


def test_a_million_samples_are_scheduled() -> None:
    sampler = BatchSampler([Samples(1_000_000, 0)], batch_size=8, shuffle=True)
    assert len(sampler.schedule()) == 125_000
