"""A worker's place among the others: who has what, which number, whom it helps."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from longshore.errors import QueueUnavailableError, UsageError
from longshore.extensions.presence import MembershipInfo, WorkerInfo
from longshore.fleet.partitions.assignment import assign
from longshore.fleet.partitions.assignment_table import AssignmentTable
from longshore.fleet.partitions.membership import PartitionMode
from longshore.fleet.partitions.us_states import US_STATES
from longshore.lease import WorkerId
from longshore.queue import Traits

from .membership_scene import ABCDEF, BEAT, LEASE, Scene


@pytest.fixture
def scene() -> Scene:
    return Scene()


# Who has what


async def test_alone_a_worker_has_everything(scene: Scene) -> None:
    one = scene.come("one")
    await scene.beat()
    assert (one.number, one.own) == (0, ABCDEF)


async def test_workers_that_know_only_the_roll_share_the_partitions_out(scene: Scene) -> None:
    for label in ("x", "y", "z"):
        scene.come(label)
    await scene.beat(2)
    assert scene.owned().keys() == ABCDEF
    assert {label: len(member.own) for label, member in scene.alive.items()} == {"x": 2, "y": 2, "z": 2}
    assert {label: member.own for label, member in scene.alive.items()} == {
        "x": frozenset(assign(ABCDEF, range(3))[0]),
        "y": frozenset(assign(ABCDEF, range(3))[1]),
        "z": frozenset(assign(ABCDEF, range(3))[2]),
    }


async def test_what_a_dead_worker_had_is_taken_over_with_the_next_heartbeat_after_its_lease(scene: Scene) -> None:
    for label in ("x", "y", "z"):
        scene.come(label)
    await scene.beat(2)
    scene.die("y")
    await scene.beat(3)
    assert scene.owned().keys() != ABCDEF
    await scene.beat()
    assert scene.owned().keys() == ABCDEF


async def test_a_worker_that_leaves_is_followed_at_once(scene: Scene) -> None:
    for label in ("x", "y"):
        scene.come(label)
    await scene.beat(2)
    await scene.alive["x"].close()
    scene.die("x")
    await scene.beat()
    assert scene.owned() == dict.fromkeys(ABCDEF, "y")


async def test_an_eleventh_worker_on_another_machine_moves_4_of_51_states(scene: Scene) -> None:
    for number in range(10):
        scene.come(f"here_{number}", partitions=US_STATES, number=number, fleet_size=10)
    await scene.beat(2)
    before = scene.owned()
    scene.come("there_0", partitions=US_STATES, number=0, fleet_size=1)
    await scene.beat(2)
    after = scene.owned()
    assert before.keys() == after.keys() == US_STATES.keys()
    assert sum(before[state] != after[state] for state in US_STATES) == 4


async def test_partitions_are_those_the_run_has_jobs_of_where_none_are_named(scene: Scene) -> None:
    await scene.submit("b")
    await scene.submit("a")
    await scene.submit("")
    await scene.submit("elsewhere", run="another")
    one = scene.come("one", partitions=None)
    await scene.beat()
    assert one.own == {"a", "b"}
    await scene.submit("c")
    await scene.beat()
    assert one.own == {"a", "b", "c"}


async def test_workers_of_another_run_and_workers_that_are_no_members_do_not_count(scene: Scene) -> None:
    scene.come("elsewhere", run="another")
    await scene.queue.register(WorkerId.new("looker"), LEASE, WorkerInfo(machine="hello"))
    one = scene.come("one")
    await scene.beat(2)
    assert one.own == ABCDEF


async def test_a_fixed_table_is_kept_to_and_covers_for_those_who_are_gone(scene: Scene) -> None:
    table = AssignmentTable({0: "abcd", 1: "ef"})
    for number in range(2):
        scene.come(f"w{number}", number=number, fleet_size=2, assigns=table.assign)
    await scene.beat(2)
    assert [scene.alive[f"w{n}"].own for n in range(2)] == [set("abcd"), set("ef")]
    scene.die("w0")
    await scene.beat(5)
    assert scene.owned() == dict.fromkeys(ABCDEF, "w1")


async def test_a_queue_that_keeps_no_roll_is_refused_with_the_fix(scene: Scene) -> None:
    scene.queue.traits = Traits(name="leaflet", spans_processes=False, spans_machines=False, wakes=False)
    with pytest.raises(UsageError, match=r"leaflet queue does not know which workers are alive.* --partitions"):
        scene.come("one")


# Numbers


async def test_a_worker_has_its_number_in_the_fleet_or_the_lowest_free_one(scene: Scene) -> None:
    for label, number in (("here_2", 2), ("here_0", 0), ("there_0", 0), ("there_1", 1)):
        scene.come(label, number=number)
    await scene.beat(2)
    assert {label: member.number for label, member in scene.alive.items()} == {
        "here_2": 2,
        "here_0": 0,
        "there_0": 1,
        "there_1": 3,
    }


async def test_a_worker_started_again_under_its_label_has_its_number_again(scene: Scene) -> None:
    for label in ("x", "y", "z"):
        scene.come(label)
    await scene.beat(2)
    had = scene.alive["y"].own
    scene.die("y")
    again = scene.come("y")
    await scene.beat()
    assert (again.number, again.own) == (1, had)


async def test_two_that_took_one_number_are_told_apart_by_everyone_alike(scene: Scene) -> None:
    info = WorkerInfo(membership=MembershipInfo(run="r", number=0))
    await scene.queue.register(WorkerId.new("b"), LEASE, info)
    await scene.queue.register(WorkerId.new("a"), LEASE, info)
    watcher = scene.come("c")
    await watcher.beat()
    assert watcher.number == 1
    late = scene.come("b")
    await late.beat()
    assert (late.number, late.own) == (2, frozenset(assign(ABCDEF, range(3))[2]))


async def test_the_first_of_a_fleet_leaves_the_others_their_share_for_a_lease(scene: Scene) -> None:
    first = scene.come("w1", number=1, fleet_size=3)
    await scene.beat()
    assert first.own == frozenset(assign(ABCDEF, range(3))[1])
    await scene.beat(3)
    assert first.own == ABCDEF


# Helping


async def test_own_partitions_come_first_even_when_others_are_fuller(scene: Scene) -> None:
    x, y = scene.come("x"), scene.come("y")
    await scene.beat(2)
    for partition in (*x.own, *y.own):
        await scene.submit(partition, 1 if partition in x.own else 50)
    assert set(await scene.claim("x", 3)) == x.own


async def test_while_there_is_work_of_its_own_a_worker_asks_for_nothing_else(scene: Scene) -> None:
    scene.come("x"), scene.come("y")
    await scene.beat(2)
    await scene.submit(min(scene.alive["x"].own), 100)
    scene.queue.claims.clear()
    scene.queue.looks = 0
    for _ in range(50):
        assert await scene.claim("x", 2)
    assert (len(scene.queue.claims), scene.queue.looks) == (50, 0)


async def test_when_its_own_are_empty_it_helps_the_fullest(scene: Scene) -> None:
    scene.come("x"), scene.come("y")
    await scene.beat(2)
    few, many, _ = sorted(scene.alive["y"].own)
    await scene.submit(few, 3)
    await scene.submit(many, 9)
    assert await scene.claim("x", 5) == [many] * 5


async def test_a_helper_goes_on_without_looking_around_each_time(scene: Scene) -> None:
    scene.come("x"), scene.come("y")
    await scene.beat(2)
    await scene.submit(min(scene.alive["y"].own), 60)
    scene.queue.claims.clear()
    scene.queue.looks = 0
    for _ in range(50):
        assert await scene.claim("x")
    assert (len(scene.queue.claims), scene.queue.looks) == (51, 1)


async def test_a_helper_comes_back_to_its_own_within_a_second(scene: Scene) -> None:
    scene.come("x"), scene.come("y")
    await scene.beat(2)
    theirs, own = min(scene.alive["y"].own), min(scene.alive["x"].own)
    await scene.submit(theirs, 9)
    assert await scene.claim("x") == [theirs]
    await scene.submit(own, 1)
    scene.clock.advance(1.0)
    assert await scene.claim("x") == [own]


async def test_where_the_fullest_has_only_delayed_jobs_it_helps_another(scene: Scene) -> None:
    scene.come("x"), scene.come("y")
    await scene.beat(2)
    few, many, _ = sorted(scene.alive["y"].own)
    await scene.submit(few, 1)
    await scene.submit(many, 9, not_before=scene.clock.now() + 3600)
    assert await scene.claim("x") == [few]


async def test_jobs_it_has_no_handler_for_do_not_make_a_partition_full(scene: Scene) -> None:
    scene.come("x"), scene.come("y")
    await scene.beat(2)
    few, many, _ = sorted(scene.alive["y"].own)
    await scene.submit(few, 1)
    await scene.submit(many, 9, kind="other")
    scene.queue.claims.clear()
    assert await scene.claim("x") == [few]
    assert scene.queue.claims[1:] == [frozenset({few})]


async def test_more_workers_than_partitions_all_help(scene: Scene) -> None:
    for number in range(9):
        scene.come(f"w{number}", number=number)
    await scene.beat(2)
    assert sum(not member.own for member in scene.alive.values()) == 3
    await scene.submit("a", 9)
    assert [await scene.claim(f"w{number}") for number in range(9)] == [["a"]] * 9


async def test_jobs_without_a_partition_are_for_everyone(scene: Scene) -> None:
    await scene.submit("a")
    scene.come("x", partitions=None, mode=PartitionMode.STRICT)
    scene.come("y", partitions=None, mode=PartitionMode.STRICT)
    await scene.beat(3)
    await scene.submit("", 2)
    other = "x" if scene.owned()["a"] == "y" else "y"
    assert await scene.claim(other) == [""]


async def test_a_limit_holds_for_helpers_too(scene: Scene) -> None:
    scene.come("x", partitions={"a"})
    await scene.beat()
    await scene.submit("b")
    await scene.submit("")
    assert await scene.claim("x") == []


async def test_the_heartbeat_goes_on_by_itself_also_after_an_outage(scene: Scene) -> None:
    one = scene.come("one")
    keeping = asyncio.ensure_future(one.keep())
    present, failures = scene.queue.present_workers, iter([True, False])

    async def flaky() -> Any:
        if next(failures, False):
            raise QueueUnavailableError("gone for a moment")
        return await present()

    scene.queue.present_workers = flaky  # type: ignore[method-assign]
    for expected in (None, 0):
        for _ in range(10):
            await asyncio.sleep(0)
        scene.clock.advance(BEAT)
        for _ in range(10):
            await asyncio.sleep(0)
        assert one.number == expected
    one.retire()
    for _ in range(10):
        await asyncio.sleep(0)
    assert one.number is None
    keeping.cancel()
