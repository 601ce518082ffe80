"""A running fleet is kept at the size its work asks for (D7)."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from dataclasses import dataclass, field

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError
from longshore.fleet.sizing.autoscale import HOLD, FleetMembers, Machine, QueueLoad, Scaler, ScalingPolicy, SizeBounds
from longshore.fleet.sizing.resizer import LOOK_EVERY, Resizer

ROOMY = Machine(available=2**40, total=2**40, processors=64, busy=0)
CROWDED = Machine(available=2**40, total=2**40, processors=1, busy=1)


class ObservedClock(ManualClock):
    """Tells when somebody sleeps by it: only a clock with a sleeper wakes one when it is moved."""

    def __init__(self) -> None:
        super().__init__()
        self.asleep = asyncio.Event()

    async def sleep(self, seconds: float) -> None:
        self.asleep.set()
        await super().sleep(seconds)


@dataclass
class FakeFleet:
    """Does what it is told, on paper."""

    live: set[int] = field(default_factory=lambda: {0})
    draining: set[int] = field(default_factory=set)
    given_up: set[int] = field(default_factory=set)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def members(self) -> FleetMembers:
        return FleetMembers(frozenset(self.live), frozenset(self.draining), frozenset(self.given_up))

    @property
    def pids(self) -> Collection[int]:
        return ()

    def start(self, number: int) -> None:
        self.live.add(number)

    def drain(self, number: int) -> None:
        self.live.remove(number)
        self.draining.add(number)


@dataclass
class Scene:
    """A fleet, its work and its machine, each as the test says."""

    pending: int = 0
    machine: Machine = ROOMY
    said: list[str] = field(default_factory=list)
    fleet: FakeFleet = field(default_factory=FakeFleet)
    clock: ObservedClock = field(default_factory=ObservedClock)
    answers: bool = True

    def __post_init__(self) -> None:
        scaler = Scaler(ScalingPolicy(SizeBounds(1, 50)), self.clock)
        self.sizing = Resizer(self.fleet, scaler, self.load, self.said.append, machine=self.read)

    async def read(self, _: Collection[int]) -> Machine:
        return self.machine

    async def load(self) -> QueueLoad:
        if not self.answers:
            raise QueueUnavailableError("The database is restarting.")
        return QueueLoad(self.pending, 0)


async def test_what_is_decided_is_done_and_said_once() -> None:
    scene = Scene(pending=1500)
    await scene.sizing.look()
    await scene.sizing.look()
    assert scene.fleet.live == {0, 1}
    assert scene.said == ["From 1 to 2 workers: 1,500 pending, one worker for each 1,000 within 1:50."]


async def test_those_not_needed_are_drained() -> None:
    scene = Scene()
    scene.fleet.live = {0, 1, 2}
    await scene.sizing.look()
    scene.clock.advance(HOLD)
    await scene.sizing.look()
    assert (scene.fleet.live, scene.fleet.draining) == ({0}, {1, 2})
    assert scene.said == ["From 3 to 1 worker: no more than 1 needed for 60 s."]


async def test_what_holds_a_fleet_back_is_said_once_for_each_time() -> None:
    scene = Scene(pending=9000, machine=CROWDED)
    scene.fleet.live = {0, 1}
    for machine in (CROWDED, CROWDED, ROOMY, CROWDED):
        scene.machine = machine
        await scene.sizing.look()
    assert scene.said == [
        "Staying at 2 workers instead of 9: 9,000 pending, one worker for each 1,000 within 1:50, "
        "held back by the processors.",
        "From 2 to 4 workers: 9,000 pending, one worker for each 1,000 within 1:50.",
        "Staying at 4 workers instead of 9: 9,000 pending, one worker for each 1,000 within 1:50, "
        "held back by the processors.",
    ]


async def test_where_the_queue_does_not_answer_everything_stays_as_it_is_and_that_is_said_once_an_outage() -> None:
    scene = Scene(pending=9000)
    for outage in (1, 2):
        scene.said.clear()
        scene.answers = False
        before = set(scene.fleet.live)
        await scene.sizing.look()
        await scene.sizing.look()
        assert scene.fleet.live == before
        scene.answers = True
        await scene.sizing.look()
        assert len(scene.fleet.live) == 2**outage
        assert scene.said[:2] == [
            "The number of workers stays as it is until the queue answers: The database is restarting.",
            "The queue answers again.",
        ]
        assert len(scene.said) == 3


async def test_it_looks_every_few_seconds_until_the_fleet_is_to_stop() -> None:
    scene = Scene(pending=9000)
    keeping = asyncio.create_task(scene.sizing.keep())
    for size in (2, 4, 8, 9):
        await asyncio.wait_for(scene.clock.asleep.wait(), 10)
        scene.clock.asleep.clear()
        assert len(scene.fleet.live) == size
        scene.clock.advance(LOOK_EVERY)
    scene.fleet.stopping.set()
    await asyncio.wait_for(keeping, 10)


async def test_a_fleet_that_waits_for_more_is_watched_on_and_one_that_ends_with_its_work_is_not() -> None:
    scene = Scene()
    scene.fleet.live = set()
    assert await scene.sizing.look()
    scene.sizing.until_done = True
    assert not await scene.sizing.look()
    scene.fleet.draining = {0}
    assert await scene.sizing.look(), "one is still there"
    scene.fleet.draining = set()
    scene.pending = 1
    assert await scene.sizing.look(), "there is more to do"
    assert scene.fleet.live == {0}


async def test_where_all_were_given_up_there_is_no_sense_in_looking_on() -> None:
    scene = Scene(pending=500)
    scene.fleet.live, scene.fleet.given_up = set(), {0}
    assert not await scene.sizing.look()
    assert scene.fleet.live == set()
