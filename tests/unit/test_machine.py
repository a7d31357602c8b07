"""What the machine leaves to this process, with control groups made of plain files."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from niskin import machine

MACHINE_BYTES = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


@pytest.fixture(autouse=True)
def one_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in machine._RANK_VARIABLES:
        monkeypatch.delenv(name, raising=False)


class Groups:
    """A tree of control groups, and the file that says in which of them this process is."""

    def __init__(self, path: Path) -> None:
        self.root, self.membership = path / "cgroup", path / "membership"

    def write(self, name: str, text: object) -> None:
        file = self.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def join(self, *lines: str) -> None:
        self.membership.write_text("".join(line + "\n" for line in lines))

    def usable_cores(self) -> int:
        return machine.usable_cores(self.root, self.membership)

    def memory_limit(self) -> int:
        return machine.memory_limit(self.root, self.membership)


@pytest.fixture
def groups(tmp_path: Path) -> Groups:
    return Groups(tmp_path)


def cores(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(count)))


@pytest.mark.parametrize(
    ("environment", "ranks"),
    [
        ({}, 1),
        ({"LOCAL_WORLD_SIZE": "8"}, 8),
        ({"SLURM_NTASKS_PER_NODE": "4"}, 4),
        ({"OMPI_COMM_WORLD_LOCAL_SIZE": "2"}, 2),
        ({"LOCAL_WORLD_SIZE": "2", "SLURM_NTASKS_PER_NODE": "1"}, 2),  # torchrun inside Slurm
        ({"LOCAL_WORLD_SIZE": "", "SLURM_NTASKS_PER_NODE": "3"}, 3),
        ({"LOCAL_WORLD_SIZE": "0"}, 1),
        ({"LOCAL_WORLD_SIZE": "-4"}, 1),
        ({"SLURM_NTASKS_PER_NODE": "many"}, 1),
    ],
)
def test_local_ranks_come_from_the_launcher(environment: dict[str, str], ranks: int) -> None:
    assert machine.local_ranks(environment) == ranks


def test_local_ranks_read_the_environment_of_now(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "5")
    assert machine.local_ranks() == 5


@pytest.mark.parametrize(
    ("cpu_max", "expected"),
    [
        (None, 12),
        ("max 100000", 12),
        ("400000 100000", 4),
        ("450000 100000", 4),
        ("50000 100000", 1),
        ("9900000 100000", 12),
        ("nonsense", 12),
        ("100000 0", 12),
        ("100000 x", 12),
        ("", 12),
    ],
)
def test_cores_are_those_of_affinity_within_the_quota(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, cpu_max: str | None, expected: int
) -> None:
    cores(monkeypatch, 12)
    if cpu_max is not None:
        groups.write("cpu.max", cpu_max)
    assert groups.usable_cores() == expected  # as without /proc
    groups.join("0::/")
    assert groups.usable_cores() == expected


@pytest.mark.parametrize(("quota_us", "expected"), [("-1", 12), ("300000", 3), ("50000", 1)])
@pytest.mark.parametrize("mount", ["cpu", "cpu,cpuacct"])
def test_the_quota_of_a_version_1_group_counts(
    groups: Groups, monkeypatch: pytest.MonkeyPatch, mount: str, quota_us: str, expected: int
) -> None:
    cores(monkeypatch, 12)
    groups.write(f"{mount}/job_7/cpu.cfs_quota_us", quota_us)
    groups.write(f"{mount}/job_7/cpu.cfs_period_us", 100000)
    groups.join("4:cpuset:/", f"2:{mount}:/job_7", "1:memory:/")
    assert groups.usable_cores() == expected


def test_the_narrowest_group_above_the_process_counts(
    groups: Groups, monkeypatch: pytest.MonkeyPatch
) -> None:
    cores(monkeypatch, 12)
    groups.write("slurm/cpu.max", "800000 100000")
    groups.write("slurm/job_7/cpu.max", "300000 100000")
    groups.write("slurm/job_7/step_0/cpu.max", "max 100000")
    groups.write("slurm/job_8/cpu.max", "100000 100000")
    groups.join("0::/slurm/job_7/step_0")
    assert groups.usable_cores() == 3
    groups.write("slurm/job_7/memory.max", 8 << 20)
    groups.write("slurm/memory.max", 16 << 20)
    assert groups.memory_limit() == (8 << 20) // 4


def test_the_path_outside_a_container_does_not_matter(groups: Groups) -> None:
    groups.write("memory.max", 8 << 20)
    groups.join("0::/../../docker/abc")
    assert groups.memory_limit() == (8 << 20) // 4


def test_cores_follow_taskset(groups: Groups) -> None:
    """Whatever the machine has, what the scheduler allows counts."""
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert groups.usable_cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.parametrize(("ranks", "expected"), [("1", 12), ("4", 3), ("5", 2), ("64", 1)])
def test_ranks_of_a_node_share_its_cores(
    monkeypatch: pytest.MonkeyPatch, ranks: str, expected: int
) -> None:
    monkeypatch.setattr(machine, "usable_cores", lambda: 12)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", ranks)
    assert machine.decode_threads() == expected


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [(None, MACHINE_BYTES), ("max", MACHINE_BYTES), ("8388608", 8 << 20), ("x", MACHINE_BYTES)],
)
def test_memory_is_a_quarter_of_what_is_allowed(
    groups: Groups, limit: str | None, allowed: int
) -> None:
    if limit is not None:
        groups.write("memory.max", limit)
    assert groups.memory_limit() == allowed // 4


@pytest.mark.parametrize(
    ("limit", "allowed"), [("8388608", 8 << 20), ("9223372036854771712", MACHINE_BYTES)]
)
def test_the_memory_limit_of_a_version_1_group_counts(
    groups: Groups, limit: str, allowed: int
) -> None:
    groups.write("memory/job_7/memory.limit_in_bytes", limit)
    groups.join("4:memory:/job_7/step_0", "1:cpu:/")
    assert groups.memory_limit() == allowed // 4


def test_ranks_of_a_node_share_its_memory(groups: Groups, monkeypatch: pytest.MonkeyPatch) -> None:
    groups.write("memory.max", 8 << 20)
    monkeypatch.setenv("LOCAL_WORLD_SIZE", "8")
    assert groups.memory_limit() == (8 << 20) // 4 // 8


def test_this_machine_leaves_something() -> None:
    assert 1 <= machine.usable_cores() <= (os.cpu_count() or 1)
    assert 0 < machine.memory_limit() <= MACHINE_BYTES // 4
