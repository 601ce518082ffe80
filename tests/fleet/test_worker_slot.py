"""What a worker of a fleet makes of its place."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.errors import UsageError
from longshore.extensions.presence import FleetInfo, WorkerInfo
from longshore.fleet.partitions.membership import Partitioning, PartitionMode
from longshore.fleet.supervise.allowed_partitions import write_limits
from longshore.fleet.supervise.worker_slot import Attendance, WorkerSlot
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue


def want(number: int) -> Want:
    return Want(worker=WorkerId.new(f"w-{number}"), lease=timedelta(seconds=30), run="r")


def test_a_place_survives_the_command_line() -> None:
    place = WorkerSlot(fleet="host_ab12", number=3, size=10, mode=PartitionMode.STRICT, table="a b.toml")
    assert WorkerSlot.decoded(place.encoded()) == place


async def test_without_partitions_a_worker_is_on_the_roll_and_looks_everywhere() -> None:
    queue, clock = MemoryQueue(), ManualClock()
    scoping = WorkerSlot(fleet="f", number=3, size=10).scoping(["CA"])
    assert isinstance(scoping, Attendance)
    scope = scoping.join(want(3), queue, clock, frozenset)
    await scope.keep()
    [there] = await queue.present_workers()
    assert there.info == WorkerInfo(fleet=FleetInfo(name="f", number=3), run="r")
    assert scope.reach is None
    await scope.close()
    assert await queue.present_workers() == []


async def test_with_partitions_it_shares_those_it_knows_before_there_are_jobs() -> None:
    queue, clock = MemoryQueue(clock=ManualClock()), ManualClock()
    scoping = WorkerSlot(fleet="f", number=1, size=2, mode=PartitionMode.HELP).scoping(["A", "B"])
    assert isinstance(scoping, Partitioning)
    await queue.submit([new_job("page", {"n": 1}, run="r", partition="C")])
    scope = scoping.join(want(1), queue, clock, frozenset)
    await scope.beat()
    assert len(scope.own) == 1
    assert scope.own < {"A", "B", "C"}
    [there] = await queue.present_workers()
    assert there.info.fleet == FleetInfo(name="f", number=1)


async def test_a_table_says_what_is_its_own(tmp_path: Path) -> None:
    table = tmp_path / "table.toml"
    table.write_text('0 = ["A"]\n1 = ["B", "C"]\n')
    scoping = WorkerSlot(fleet="f", number=1, size=2, mode=PartitionMode.HELP, table=str(table)).scoping([])
    scope = scoping.join(want(1), MemoryQueue(), ManualClock(), frozenset)
    await scope.beat()  # type: ignore[attr-defined]
    assert scope.own == {"B", "C"}  # type: ignore[attr-defined]


def test_any_number_of_partitions_of_any_name_reaches_a_worker(tmp_path: Path) -> None:
    names = {f"{number:030}" for number in range(10_000)} | {"a,b", " ", "x\ny", "Köln"}
    file = write_limits(tmp_path / "new" / "partitions.json", names)
    place = WorkerSlot.decoded(WorkerSlot(fleet="f", number=0, size=1, limits=str(file)).encoded())
    assert place.limited_to() == frozenset(names)
    assert WorkerSlot(fleet="f", number=0, size=1).limited_to() is None


def test_limits_that_are_gone_are_named(tmp_path: Path) -> None:
    place = WorkerSlot(fleet="f", number=0, size=1, limits=str(tmp_path / "gone.json"))
    with pytest.raises(UsageError, match=r"gone\.json cannot be read"):
        place.limited_to()
