"""Watching a run: what is seen of it, and how waiting ends."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from longshore.clock import ManualClock
from longshore.errors import Failure, NotFoundError, QueueUnavailableError
from longshore.extensions.presence import MembershipInfo, PresentWorker, WorkerInfo
from longshore.extensions.shared_state import ABSENT, StateEntry
from longshore.extensions.submissions import SubmissionNotice
from longshore.job import new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Outcome, Settlement
from longshore.queue import Count, Selection
from longshore.runs.watch.active_workers import ActiveWorkers, active_among
from longshore.runs.watch.breakdown import By, breakdown
from longshore.runs.watch.watcher import RunSnapshot, RunWatcher, WaitEnd, how_it_ended, wait_for

LEASE = timedelta(hours=10)
WORKER = WorkerId.new("ann")
DONE = Completed()
BROKEN = Failed(Failure("processing", "no title", exception="x.TitleError", retryable=False))


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> MemoryQueue:
    return MemoryQueue(clock)


async def submit(queue: MemoryQueue, number: int, *, host: str = "", begin: int = 0) -> None:
    await queue.submit([new_job("page", {"n": n}, run="r", host=host) for n in range(begin, begin + number)])


async def claim(queue: MemoryQueue, number: int) -> list[Lease]:
    return await queue.claim(Want(worker=WORKER, limit=number, lease=LEASE, run="r"))


async def settle(queue: MemoryQueue, leases: list[Lease], outcome: Outcome = DONE, seconds: float = 2.0) -> None:
    assert all(await queue.settle([Settlement(lease, outcome, seconds) for lease in leases]))


async def test_a_watch_counts_what_stands_where(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 10)
    await settle(queue, await claim(queue, 3))
    await settle(queue, await claim(queue, 2), BROKEN)
    look = await RunWatcher(queue, "r", clock).look()
    assert (look.count.pending, look.count.completed, look.count.failed) == (5, 3, 2)
    assert look.failing == (("processing (TitleError)", 2),)
    assert look.evidence.seconds == (2.0,) * 5


async def test_a_run_that_is_not_there_is_named(queue: MemoryQueue, clock: ManualClock) -> None:
    with pytest.raises(NotFoundError, match="no run 'r'"):
        await RunWatcher(queue, "r", clock).look()


async def test_who_attaches_late_knows_how_fast_it_went_before(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 40)
    for _ in range(10):
        leases = await claim(queue, 2)
        clock.advance(4.0)
        await settle(queue, leases, seconds=4.0)
    await queue.register(WORKER, LEASE, WorkerInfo(run="r", busy=0, slots=2))
    look = await RunWatcher(queue, "r", clock).look()
    assert look.estimate.p50 == pytest.approx(40, rel=0.3)


async def test_the_age_of_what_is_under_way_is_seen(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 4)
    await claim(queue, 2)
    watch = RunWatcher(queue, "r", clock)
    assert (await watch.look()).evidence.ages == (0.0, 0.0)
    clock.advance(30.0)
    await claim(queue, 1)
    assert sorted((await watch.look()).evidence.ages) == [0.0, 30.0, 30.0]


async def test_hosts_that_hold_requests_back_are_known(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 30, host="slow.org")
    await submit(queue, 70, host="fast.org", begin=30)
    learned = {"rate": 0.5, "ceiling": 0.5, "since": 0.0, "grown_at": 0.0, "pressed": True}
    await queue.swap_entries(
        "pace", [StateEntry("slow.org", ABSENT, learned), StateEntry("fast.org", ABSENT, {"rate": "nonsense"})]
    )
    look = await RunWatcher(queue, "r", clock).look()
    [load] = look.evidence.hosts
    assert (load.host, load.jobs, load.rate) == ("slow.org", 30, 0.5)


async def test_delays_are_seen(queue: MemoryQueue, clock: ManualClock) -> None:
    await queue.submit([new_job("page", {"n": 1}, run="r", not_before=clock.now() + 500)])
    look = await RunWatcher(queue, "r", clock).look()
    assert look.evidence.waits == (500.0,)
    assert look.evidence.delayed == 1


async def test_a_run_without_workers_is_unattended_until_one_comes(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 4)
    watch = RunWatcher(queue, "r", clock)
    assert (await watch.look()).unattended
    await queue.register(WorkerId.new("bob"), LEASE, WorkerInfo(run="another"))
    assert (await watch.look()).unattended
    await queue.register(WORKER, LEASE, WorkerInfo(membership=MembershipInfo(run="r")))
    assert not (await watch.look()).unattended


async def test_hands_are_what_all_workers_say(queue: MemoryQueue) -> None:
    assert active_among(await queue.present_workers()) == ActiveWorkers(workers=0)
    await queue.register(WORKER, LEASE, WorkerInfo(run="r", busy=3, slots=4))
    await queue.register(WorkerId.new("bob"), LEASE, WorkerInfo(busy=1, slots=4))
    found = active_among(await queue.present_workers(), "r")
    assert (found.workers, found.busy, found.slots, found.utilisation) == (2, 4, 8, 0.5)
    assert found.pause == 0
    await queue.register(WorkerId.new("eve"), LEASE, WorkerInfo(pause=15.0))
    found = active_among(await queue.present_workers(), "r")
    assert (found.utilisation, found.pause) == (None, 5.0)


async def test_a_kind_that_no_worker_takes_is_told_from_the_others(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 4)
    await queue.submit([new_job("detail", {"n": 1}, run="r")])
    watch = RunWatcher(queue, "r", clock)
    assert (await watch.look()).evidence.untaken == ()  # nobody is there at all, which is said in other words
    await queue.register(WORKER, LEASE, WorkerInfo(run="r", kinds=("page",)))
    assert (await watch.look()).estimate.untaken == ("detail",)
    # One that works on another run is no help; one that does not say what it takes may be.
    await queue.register(WorkerId.new("bob"), LEASE, WorkerInfo(run="s", kinds=("detail",)))
    assert (await watch.look()).estimate.unknown == "no worker takes kind detail"
    await queue.register(WorkerId.new("eve"), LEASE, WorkerInfo())
    assert (await watch.look()).evidence.untaken == ()


async def test_a_kind_that_somebody_holds_a_job_of_is_taken(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 4)
    await queue.register(WorkerId.new("bob"), LEASE, WorkerInfo(run="r", kinds=("detail",)))
    assert (await RunWatcher(queue, "r", clock).look()).evidence.untaken == ("page",)
    await claim(queue, 1)
    assert (await RunWatcher(queue, "r", clock).look()).evidence.untaken == ()


@pytest.mark.parametrize(
    ("count", "ended"),
    [
        (Count(completed=3), WaitEnd.COMPLETED),
        (Count(completed=3, failed=1, cancelled=1), WaitEnd.FAILED),
        (Count(completed=3, cancelled=1), WaitEnd.CANCELLED),
    ],
)
def test_how_a_run_ended(count: Count, ended: WaitEnd) -> None:
    assert how_it_ended(count) is ended


class Shown:
    """Whoever is shown the looks, and can wait for them."""

    def __init__(self) -> None:
        self.looks: list[RunSnapshot] = []
        self.sentences: list[str] = []
        self._new = asyncio.Event()

    def show(self, look: RunSnapshot) -> None:
        self.looks.append(look)
        self._new.set()

    def say(self, text: str) -> None:
        self.sentences.append(text)
        self._new.set()

    async def next(self) -> None:
        await self._new.wait()
        self._new.clear()


async def test_waiting_ends_with_the_run(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 2)
    shown = Shown()
    waiting = asyncio.ensure_future(wait_for(RunWatcher(queue, "r", clock), clock, shown.show, shown.say))
    await shown.next()
    await settle(queue, await claim(queue, 2))
    while not waiting.done():
        clock.advance(1.0)
        await asyncio.sleep(0)
    ended, look = waiting.result()
    assert (ended, look.count.completed) == (WaitEnd.COMPLETED, 2)


async def test_a_run_that_is_pruned_between_two_looks_has_not_completed(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 2)
    shown = Shown()
    waiting = asyncio.ensure_future(wait_for(RunWatcher(queue, "r", clock), clock, shown.show, shown.say))
    await shown.next()
    await settle(queue, await claim(queue, 2))
    assert await queue.prune(Selection(run="r")) == 2
    while not waiting.done():
        clock.advance(1.0)
        await asyncio.sleep(0)
    ended, look = waiting.result()
    assert (ended, look.count.pending) == (WaitEnd.GONE, 2)


async def test_waiting_ends_when_the_time_is_over(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 2)
    shown = Shown()
    waiting = asyncio.ensure_future(
        wait_for(RunWatcher(queue, "r", clock), clock, shown.show, shown.say, timeout=timedelta(seconds=5))
    )
    while not waiting.done():
        await asyncio.sleep(0)
        clock.advance(0.5)
    assert waiting.result()[0] is WaitEnd.TIMEOUT
    assert len(shown.looks) >= 2


async def test_leaving_changes_nothing(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 2)
    await claim(queue, 1)
    before = await queue.jobs(Selection())
    shown, leave = Shown(), asyncio.Event()
    waiting = asyncio.ensure_future(wait_for(RunWatcher(queue, "r", clock), clock, shown.show, shown.say, leave=leave))
    await shown.next()
    leave.set()
    assert (await waiting)[0] is WaitEnd.DETACHED
    assert await queue.jobs(Selection()) == before


class Flaky(MemoryQueue):
    """A queue that does not answer while `down`."""

    down = False

    async def stats(self, run: str | None = None) -> list[Count]:
        if self.down:
            raise QueueUnavailableError("busy")
        return await super().stats(run)


async def test_a_queue_that_does_not_answer_for_a_while_is_waited_for(clock: ManualClock) -> None:
    queue, shown, leave = Flaky(clock), Shown(), asyncio.Event()
    await submit(queue, 2)
    waiting = asyncio.ensure_future(wait_for(RunWatcher(queue, "r", clock), clock, shown.show, shown.say, leave=leave))
    await shown.next()
    queue.down = True
    while not shown.sentences:
        clock.advance(1.0)
        await asyncio.sleep(0)
    queue.down = False
    while len(shown.sentences) < 2:
        clock.advance(1.0)
        await asyncio.sleep(0)
    leave.set()
    await waiting
    assert shown.sentences == ["The queue does not answer; waiting for it: busy", "The queue answers again."]


async def test_jobs_are_counted_by_what_no_counter_knows(queue: MemoryQueue) -> None:
    await submit(queue, 3, host="a.org")
    await submit(queue, 2, host="b.org", begin=3)
    await settle(queue, await claim(queue, 4))
    await settle(queue, await claim(queue, 1), BROKEN)
    by_host = await breakdown(queue, "r", By.HOST, lambda _: None)
    assert {(part.name, part.total) for part in by_host} == {("a.org", 3), ("b.org", 2)}
    [worker] = await breakdown(queue, "r", By.WORKER, lambda _: None)
    assert (worker.name, worker.completed, worker.failed, worker.seconds / worker.timed) == ("ann", 4, 1, 2.0)
    [error] = await breakdown(queue, None, By.ERROR, lambda _: None)
    assert (error.name, error.failed, error.example) == ("processing (TitleError)", 1, "no title")


async def test_a_run_is_not_finished_while_it_is_being_submitted(queue: MemoryQueue, clock: ManualClock) -> None:
    await submit(queue, 1)
    await settle(queue, await claim(queue, 1))
    watch = RunWatcher(queue, "r", clock)
    async with SubmissionNotice(queue, "r", clock) as notice:
        await notice.begin()
        look = await watch.look()
        assert look.count.remaining == 0
        assert not look.finished
        assert look.estimate.unknown == "it is still being submitted"
        assert look.active.workers == 0  # a submitter is no worker
        looks: list[RunSnapshot] = []
        waiting = asyncio.create_task(wait_for(watch, clock, looks.append, pytest.fail))
        while len(looks) < 3:
            await asyncio.sleep(0)
            clock.advance(0.5)
        assert not waiting.done()
    while not waiting.done():
        await asyncio.sleep(0)
        clock.advance(0.5)
    assert waiting.result()[0] is WaitEnd.COMPLETED


async def test_a_submission_that_ends_between_the_looks_leaves_its_last_jobs_seen(
    queue: MemoryQueue, clock: ManualClock
) -> None:
    """The counts are read after the registry, so the last batch is never missed."""
    notice = SubmissionNotice(queue, "r", clock)
    await submit(queue, 1)
    await settle(queue, await claim(queue, 1))
    await notice.begin()
    present = queue.present_workers

    async def present_then_ended() -> list[PresentWorker]:
        found = await present()
        await queue.submit([new_job("page", {"last": 1}, run="r")])
        await notice.__aexit__(None, None, None)
        return found

    queue.present_workers = present_then_ended  # type: ignore[method-assign]
    assert not (await RunWatcher(queue, "r", clock).look()).finished
