"""What every schedule guarantees, for generated groups, ranks and batch sizes."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from niskin.sampling import BatchSampler, DistributedBatchSampler


@dataclass(frozen=True)
class Samples:
    count: int
    key: int

    def __len__(self) -> int:
        return self.count


shards = st.lists(st.builds(Samples, st.integers(1, 30), st.integers(0, 2)), min_size=1, max_size=4)
options = st.fixed_dictionaries(
    {
        "batch_size": st.integers(1, 5),
        "shuffle": st.booleans(),
        "drop_last": st.booleans(),
        "seed": st.integers(0, 2**40),
    }
)


def keys(parts: list[Samples]) -> list[int]:
    return [part.key for part in parts for _ in range(part.count)]


@given(shards, options, st.integers(0, 9))
def test_single_process(parts: list[Samples], given: dict[str, int], epoch: int) -> None:
    sampler = BatchSampler(parts, **given)  # type: ignore[arg-type]
    batches = sampler.schedule(epoch)
    key = keys(parts)
    assert len(batches) == len(sampler)
    assert all(len({key[index] for index in batch}) == 1 for batch in batches)
    seen = [index for batch in batches for index in batch]
    assert len(set(seen)) == len(seen)
    if given["drop_last"]:
        assert all(len(batch) == given["batch_size"] for batch in batches)
    else:
        assert sorted(seen) == list(range(len(key)))


@given(shards, options, st.integers(1, 17), st.integers(0, 9))
def test_distributed(parts: list[Samples], given: dict[str, int], ranks: int, epoch: int) -> None:
    samplers = [
        DistributedBatchSampler(parts, rank=rank, world_size=ranks, **given)  # type: ignore[arg-type]
        for rank in range(ranks)
    ]
    schedules = [sampler.schedule(epoch) for sampler in samplers]
    assert {len(schedule) for schedule in schedules} == {len(samplers[0])}
    assert len({sampler.schedule_hash(epoch) for sampler in samplers}) == 1
    key = keys(parts)
    steps = list(zip(*schedules, strict=True))
    assert [list(step) for step in steps] == samplers[-1].global_schedule(epoch)
    for step in steps:
        assert len({key[index] for batch in step for index in batch}) == 1
    flags = [sampler.padded(epoch) for sampler in samplers]
    kept = [
        index
        for schedule, flag in zip(schedules, flags, strict=True)
        for batch, padded in zip(schedule, flag, strict=True)
        for index in batch
        if not padded
    ]
    assert len(set(kept)) == len(kept)
    if given["drop_last"]:
        assert not any(map(any, flags))
    else:
        assert sorted(kept) == list(range(len(key)))
