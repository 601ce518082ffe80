"""Strict: members that differ in their partitions, kinds or run. Each job has one that can take it, and never two."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from longshore.extensions.presence import MembershipInfo, WorkerInfo
from longshore.fleet.partitions.membership import Partitioning, PartitionMode
from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection
from longshore.worker import RunFinished, WorkerConfig, work

from .membership_scene import LEASE, Scene

STRICT = PartitionMode.STRICT


@pytest.fixture
def scene() -> Scene:
    return Scene()


@pytest.mark.parametrize("mode", PartitionMode)
@pytest.mark.parametrize("told", [("ab", "cd"), ("ab", "cd", "ef"), ("ab", "bc", "ca"), ("abcd", "d"), ("d", "abcd")])
async def test_workers_that_are_told_different_partitions_cover_them_all_and_none_twice(
    scene: Scene, told: tuple[str, ...], mode: PartitionMode
) -> None:
    for number, partitions in enumerate(told):
        scene.come(f"w{number}", partitions=partitions, mode=mode)
    await scene.beat(6)
    owned = scene.owned()
    assert owned.keys() == set("".join(told))
    assert all(partition in told[int(label[1:])] for partition, label in owned.items())


async def test_the_partitions_that_two_may_take_are_shared_out_evenly(scene: Scene) -> None:
    for label in ("x", "y"):
        scene.come(label, mode=STRICT)
    scene.come("z", partitions="gh", mode=STRICT)
    await scene.beat(6)
    assert {label: len(member.own) for label, member in scene.alive.items()} == {"x": 3, "y": 3, "z": 2}


async def test_workers_with_no_kind_in_common_may_have_the_same_partition(scene: Scene) -> None:
    for label, kind in (("x", "list"), ("y", "item")):
        scene.come(label, kinds=[kind], mode=STRICT)
    await scene.beat(6)
    assert {label: len(member.own) for label, member in scene.alive.items()} == {"x": 6, "y": 6}


async def test_a_partition_goes_to_the_worker_that_can_take_all_of_it(scene: Scene) -> None:
    for partition in "ab":
        await scene.submit(partition, kind="item")
    await scene.submit("a", kind="list")
    scene.come("both", partitions="ab", kinds=["list", "item"], mode=STRICT)
    scene.come("items", partitions="ab", kinds=["item"], mode=STRICT)
    await scene.beat(6)
    owned = scene.owned()
    assert owned["a"] == "both"
    assert owned.keys() == {"a", "b"}


async def test_a_partition_that_no_worker_can_take_whole_is_finished_by_one_after_the_other(scene: Scene) -> None:
    for kind in ("list", "item", "image"):
        await scene.submit("a", kind=kind)
    scene.come("x", partitions="a", kinds=["list", "item"], mode=STRICT)
    scene.come("y", partitions="a", kinds=["item", "image"], mode=STRICT)
    done = []
    for _ in range(12):
        await scene.beat()
        assert len(scene.owned()) <= 1
        for label in scene.owned().values():
            await scene.claim(label)
            for lease in scene.hands[label]:
                done.append(lease.job.kind)
                await scene.queue.cancel(Selection(ids=frozenset({lease.job.id})))
            scene.hands[label].clear()
    assert sorted(done) == ["image", "item", "list"]


async def test_a_worker_of_one_run_and_one_of_every_run_never_have_the_same_partition(scene: Scene) -> None:
    for partition in "abcd":
        await scene.submit(partition)
    await scene.submit("d", run="another")
    scene.come("one", partitions=None, mode=STRICT)
    scene.come("every", partitions=None, run=None, mode=STRICT)
    await scene.beat(6)
    owned = scene.owned()
    assert owned.keys() == set("abcd")
    assert owned["d"] == "every", "only this one can take all of it"
    assert "one" in owned.values()


async def test_two_runs_have_the_same_partitions_without_harm(scene: Scene) -> None:
    for run in ("r", "s"):
        scene.come(run, run=run, mode=STRICT)
    await scene.beat(6)
    assert {label: len(member.own) for label, member in scene.alive.items()} == {"r": 6, "s": 6}


async def test_a_member_of_an_older_version_does_not_say_what_it_can_take_and_may_take_everything(scene: Scene) -> None:
    old = WorkerInfo(membership=MembershipInfo(run="r", number=0, partitions=("a",)))
    await scene.queue.register(WorkerId.new("old"), LEASE, old)
    new = scene.come("new", mode=STRICT)
    await new.beat()
    await new.beat()
    assert "a" not in new.own


async def test_strict_workers_that_are_told_different_partitions_finish_the_run(tmp_path: Any) -> None:
    queue = MemoryQueue()
    await queue.submit([new_job("page", {"n": n, "p": p}, run="r", partition=p) for p in "ABCD" for n in range(3)])

    @handler("page")
    async def page(job: Any) -> str:
        return str(job.partition)

    def worker(label: str, partitions: str) -> Any:
        config = WorkerConfig(
            queue_url="memory://",
            handler_file=tmp_path / "handlers.py",
            worker=WorkerId.new(label),
            run="r",
            partitions=frozenset(partitions),
            scope=Partitioning(mode=STRICT, number=0, fleet_size=1),
            stop=(RunFinished("r"),),
            keep_awake=False,
        )
        return work(config, handlers={"page": page}, queue=queue)

    await asyncio.wait_for(asyncio.gather(worker("x", "AB"), worker("y", "CD")), 60)
    jobs = await queue.jobs(Selection())
    assert {(job.state, job.worker) for job in jobs if job.partition in "AB"} == {(State.COMPLETED, "x")}
    assert {(job.state, job.worker) for job in jobs if job.partition in "CD"} == {(State.COMPLETED, "y")}
