"""Strict: partitions change hands, and never have two workers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import types
from collections.abc import Coroutine, Generator
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.fleet.partitions.assignment import Assigns, assign
from longshore.fleet.partitions.assignment_table import AssignmentTable
from longshore.fleet.partitions.membership import Partitioning, PartitionMode
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue

from .membership_scene import ABCDEF, BEAT, LEASE, Scene, fields_of


@pytest.fixture
def scene() -> Scene:
    return Scene()


async def test_a_worker_claims_from_its_own_and_waits_for_its_own_only(scene: Scene) -> None:
    x, y = scene.come("x", mode=PartitionMode.STRICT), scene.come("y", mode=PartitionMode.STRICT)
    await scene.beat(4)
    assert scene.owned().keys() == ABCDEF
    await scene.submit(min(y.own), 9)
    assert await scene.claim("x") == []
    assert x.reach == x.own


async def test_a_newcomer_has_its_share_within_two_heartbeats(scene: Scene) -> None:
    scene.come("x", mode=PartitionMode.STRICT)
    await scene.beat()
    scene.come("y", mode=PartitionMode.STRICT)
    await scene.beat(2)
    assert {label: len(member.own) for label, member in scene.alive.items()} == {"x": 3, "y": 3}


async def test_what_is_in_hand_is_finished_before_the_partition_changes_hands(scene: Scene) -> None:
    scene.come("x", mode=PartitionMode.STRICT)
    await scene.beat()
    moving = frozenset(assign(ABCDEF, range(2))[1])
    for partition in ABCDEF:
        await scene.submit(partition, 2)
    await scene.claim("x", 12)
    scene.hands["x"][:] = [lease for lease in scene.hands["x"] if lease.job.partition == min(moving)]
    y = scene.come("y", mode=PartitionMode.STRICT)
    await scene.beat(5)
    assert y.own == moving - {min(moving)}
    scene.hands["x"].clear()
    await scene.beat(2)
    assert y.own == moving


async def test_the_workers_of_a_fleet_have_their_final_share_from_the_first_moment(scene: Scene) -> None:
    for number in (2, 0, 1):
        member = scene.come(f"w{number}", number=number, fleet_size=3, mode=PartitionMode.STRICT)
        await member.beat()
        assert member.own == frozenset(assign(ABCDEF, range(3))[number])


async def test_a_worker_that_was_silent_for_a_lease_claims_nothing_that_another_took(scene: Scene) -> None:
    x = scene.come("x", mode=PartitionMode.STRICT)
    await scene.beat()
    sleeper, had = scene.alive.pop("x"), x.own
    scene.clock.advance(LEASE.total_seconds() + 1)
    y = scene.come("y", mode=PartitionMode.STRICT)
    await y.beat()
    assert y.own == had
    await scene.queue.renew(scene.wants["x"].worker, LEASE)  # its renewal wakes up before it does
    for partition in ABCDEF:
        await scene.submit(partition)
    scene.alive["x"] = sleeper
    assert await scene.claim("x") == []


async def test_a_worker_that_drains_keeps_only_what_it_works_on(scene: Scene) -> None:
    x, y = scene.come("x", mode=PartitionMode.STRICT), scene.come("y", mode=PartitionMode.STRICT)
    await scene.beat(4)
    working_on = min(x.own)
    await scene.submit(working_on)
    await scene.claim("x")
    x.retire()
    await scene.beat(2)
    assert (x.own, y.own) == (frozenset(), ABCDEF - {working_on})
    await x.close()
    await y.beat()
    assert y.own == ABCDEF


async def test_nothing_is_given_up_while_a_claim_for_it_is_on_its_way(scene: Scene) -> None:
    x = scene.come("x", mode=PartitionMode.STRICT)
    await scene.beat()
    moving = frozenset(assign(ABCDEF, range(2))[1])
    await scene.submit(min(moving))
    answer = asyncio.Event()
    claim = scene.queue.claim

    async def slow(want: Want) -> list[Lease]:
        leases = await claim(want)
        await answer.wait()
        return leases

    scene.queue.claim = slow  # type: ignore[method-assign]
    claiming = asyncio.ensure_future(scene.claim("x"))
    y = scene.come("y", mode=PartitionMode.STRICT)
    await y.beat()
    beating = asyncio.ensure_future(x.beat())
    for _ in range(10):
        await asyncio.sleep(0)
    await y.beat()
    assert y.own == frozenset()
    answer.set()
    await asyncio.gather(claiming, beating)
    await y.beat()
    assert y.own == moving - {min(moving)}


async def test_a_change_is_told(scene: Scene) -> None:
    x = scene.come("x", mode=PartitionMode.STRICT)
    await scene.beat()
    await x.changed()
    told = asyncio.ensure_future(x.changed())
    await scene.beat()
    await asyncio.sleep(0)
    assert not told.done()
    scene.come("y", mode=PartitionMode.STRICT)
    await scene.beat(2)
    await told


# In every order of things


@types.coroutine
def _elsewhere() -> Generator[None, None, None]:
    """Let others go first."""
    yield


class InterruptedQueue(MemoryQueue):
    """Before and after each call others may have their turn, as on a real network."""

    async def present_workers(self) -> Any:
        await _elsewhere()
        answer = await super().present_workers()
        await _elsewhere()
        return answer

    async def register(self, *arguments: Any) -> Any:
        await _elsewhere()
        answer = await super().register(*arguments)
        await _elsewhere()
        return answer

    async def claim(self, want: Want) -> list[Lease]:
        await _elsewhere()
        await super().claim(Want(**fields_of(want) | {"limit": 0}))
        await _elsewhere()
        return []


class Actor:
    """A worker whose every step is taken one at a time. A job is nothing but the name of its partition here."""

    def __init__(
        self,
        world: World,
        label: str,
        partitions: frozenset[str] = ABCDEF,
        kinds: frozenset[str] | None = None,
        assigns: Assigns = assign,
    ) -> None:
        self.world = world
        self.want = Want(worker=WorkerId.new(label), lease=LEASE, run="r", kinds=kinds, partitions=partitions)
        self.hand: list[str] = []
        self.asking: frozenset[str] = frozenset()
        plan = Partitioning(mode=PartitionMode.STRICT, assigns=assigns)
        self.member = plan.join(self.want, world.queue, world.clock, lambda: frozenset(self.hand))
        self.doing: Coroutine[Any, Any, Any] | None = None
        self.can_wake = True

    def meets(self, other: Actor) -> bool:
        """Whether both can take the same jobs."""
        mine, theirs = self.want.kinds, other.want.kinds
        return mine is None or theirs is None or bool(mine & theirs)

    @property
    def holds(self) -> frozenset[str]:
        return self.asking | frozenset(self.hand)

    async def take(self, partitions: frozenset[str] | None) -> list[Lease]:
        assert partitions
        self.asking = partitions
        self.world.check()
        await self.world.queue.claim(Want(**fields_of(self.want) | {"partitions": partitions}))
        self.hand.append(self.world.chance.choice(sorted(partitions)))
        self.asking = frozenset()
        return []

    def step(self) -> None:
        if self.doing is None:
            chance = self.world.chance.random()
            if chance < 0.4:
                self.doing = self.member.beat()
            elif chance < 0.7 and not self.member._retired:
                self.doing = self.member.claim(self.take)
            elif self.hand:
                self.hand.pop()
            return
        try:
            self.doing.send(None)
        except StopIteration:
            self.doing = None

    def finish(self) -> None:
        while self.doing is not None:
            self.step()


class World:
    def __init__(self, seed: int, *, unlike: bool = False) -> None:
        self.chance = random.Random(seed)
        self.unlike = unlike
        """Whether the workers differ in their partitions and kinds."""
        self.clock = ManualClock()
        self.queue = InterruptedQueue(self.clock)
        self.actors: dict[str, Actor] = {}
        self.away: dict[str, Actor] = {}
        """Those that do nothing: dead, or asleep and about to wake up."""
        self.born = 0

    def check(self) -> None:
        """No two that can take the same jobs hold, or ask for, the same partition, until their lease is over."""
        holders: dict[str, list[Actor]] = {}
        for label, actor in [*self.actors.items(), *self.away.items()]:
            if label in self.away and self.lapsed(actor):
                continue
            for partition in actor.holds:
                for other in holders.setdefault(partition, []):
                    assert not actor.meets(other), f"{partition} is held by {other.want.worker} and by {label}"
                holders[partition].append(actor)

    def lapsed(self, actor: Actor) -> bool:
        return self.queue._deadlines.get(actor.want.worker, 0.0) < self.clock.now()

    def happen(self) -> None:
        chance = self.chance.random()
        if not self.actors or (chance < 0.03 and len(self.actors) < 6):
            self.born += 1
            label = f"{self.chance.choice('abcdefgh')}{self.born}"
            self.actors[label] = self.newcomer(label)
        elif chance < 0.04:
            self.leave(self.chance.choice(sorted(self.actors)))
        elif chance < 0.05:
            self.chance.choice(sorted(self.actors.items()))[1].member.retire()
        elif chance < 0.06 and self.away:
            self.wake(self.chance.choice(sorted(self.away)))
        elif chance < 0.16:
            self.clock.advance(self.chance.choice([0.5, 1.0, 2.0]))
        else:
            self.chance.choice(sorted(self.actors.items()))[1].step()
        self.check()

    def newcomer(self, label: str) -> Actor:
        if not self.unlike:
            return Actor(self, label)
        partitions = frozenset(self.chance.sample(sorted(ABCDEF), self.chance.randint(1, 6)))
        kinds = self.chance.choice([None, frozenset({"list"}), frozenset({"item"})])
        return Actor(self, label, partitions, kinds)

    def leave(self, label: str) -> None:
        """It dies, or its machine falls asleep."""
        actor = self.away[label] = self.actors.pop(label)
        actor.can_wake = actor.doing is None
        if actor.doing is not None:
            actor.doing.close()

    def wake(self, label: str) -> None:
        actor = self.away[label]
        if not actor.can_wake:
            return
        self.actors[label] = self.away.pop(label)
        if self.lapsed(actor):
            actor.hand.clear()  # its jobs were brought back
        if self.chance.random() < 0.5:
            with contextlib.suppress(StopIteration):  # its renewal may wake up before it does
                self.queue.renew(actor.want.worker, LEASE).send(None)

    def settle_down(self) -> None:
        """Everyone finishes and beats in turn, until the dead are forgotten."""
        for _ in range(8):
            for actor in self.actors.values():
                actor.finish()
                actor.hand.clear()
                actor.doing = actor.member.beat()
                actor.finish()
                self.check()
            self.clock.advance(BEAT)


def test_of_two_that_mean_the_same_partition_and_always_act_together_one_gets_it() -> None:
    world = World(0)
    # Told different tables, each has b according to its own.
    for label in ("x", "y"):
        table = AssignmentTable({0: "b"} if label == "x" else {1: "b"})
        actor = world.actors[label] = Actor(world, label, frozenset("b"), assigns=table.assign)
        actor.member._number = len(world.actors) - 1
    for _ in range(4):
        for actor in world.actors.values():
            actor.doing = actor.member.beat()
        while any(actor.doing for actor in world.actors.values()):
            for actor in world.actors.values():
                if actor.doing:
                    actor.step()
        world.clock.advance(BEAT)
    assert [sorted(actor.member.own) for actor in world.actors.values()] == [["b"], []]


@pytest.mark.parametrize("seed", range(40))
def test_no_two_ever_hold_one_partition_and_in_the_end_all_are_held(seed: int) -> None:
    world = World(seed)
    for _ in range(1500):
        world.happen()
    world.settle_down()
    staying = [actor.member for actor in world.actors.values() if not actor.member._retired]
    owned = [partition for member in staying for partition in member.own]
    assert sorted(owned) == (sorted(ABCDEF) if staying else [])


@pytest.mark.parametrize("seed", range(40))
def test_unlike_workers_never_hold_the_same_jobs_and_in_the_end_all_that_can_be_taken_is_held(seed: int) -> None:
    world = World(seed, unlike=True)
    for _ in range(1500):
        world.happen()
    world.settle_down()
    staying = [actor for actor in world.actors.values() if not actor.member._retired]
    for actor in staying:
        for partition in actor.want.partitions or ():
            able = [each for each in staying if partition in (each.want.partitions or ())]
            # One that takes every kind connects all of them.
            connected = [each for each in able if each.meets(actor) or any(other.want.kinds is None for other in able)]
            assert [each for each in connected if partition in each.member.own], f"{partition} is held by none"
