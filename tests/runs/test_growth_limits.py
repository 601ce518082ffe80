"""Follow-on jobs: how deep and how many, and nothing is left out silently."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError, UsageError
from longshore.handlers.handler import handler
from longshore.handlers.result import Result
from longshore.job import Job, NewJob, State, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection, totals
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut, left_out, limits_of, set_limits
from longshore.runs.control.prune import prune
from longshore.worker import RunFinished, WorkerConfig, work
from longshore.wrappers.growth_limits import GrowthLimitedQueue, within

WORKER = WorkerId.new("tester")


def some(count: int, start: int = 0) -> list[NewJob]:
    return [new_job("page", {"number": number}) for number in range(start, start + count)]


def a_job(depth: int) -> Job:
    return Job(id="1", run="r", kind="page", key="k", payload={}, depth=depth)


@pytest.mark.parametrize(
    ("limits", "depth", "room", "kept", "dropped"),
    [
        (GrowthLimits(), 9, 9, 3, LeftOut()),
        (GrowthLimits(max_depth=1), 0, 9, 3, LeftOut()),
        (GrowthLimits(max_depth=1), 1, 0, 0, LeftOut(too_deep=3)),
        (GrowthLimits(max_depth=0), 0, 0, 0, LeftOut(too_deep=3)),
        (GrowthLimits(max_jobs=10), 5, 3, 3, LeftOut()),
        (GrowthLimits(max_jobs=10), 5, 2, 2, LeftOut(too_many=1)),
        (GrowthLimits(max_jobs=10), 5, 0, 0, LeftOut(too_many=3)),
        (GrowthLimits(max_jobs=10, max_depth=2), 2, 2, 0, LeftOut(too_deep=3)),
    ],
)
def test_what_is_within_the_limits_is_kept_in_its_order(
    limits: GrowthLimits, depth: int, room: int, kept: int, dropped: LeftOut
) -> None:
    follow_on = some(3)
    assert within(limits, a_job(depth), follow_on, room) == (tuple(follow_on[:kept]), dropped)


@pytest.mark.parametrize("wrong", [{"max_depth": -1}, {"max_jobs": 0}, {"max_jobs": 10**13}])
def test_a_limit_that_makes_no_sense_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="it takes a whole number from"):
        GrowthLimits(**wrong)


async def test_limits_are_set_one_by_one_and_the_others_stay() -> None:
    queue = MemoryQueue()
    assert await limits_of(queue, "r") == GrowthLimits()
    await set_limits(queue, "r", GrowthLimits(max_depth=3))
    await set_limits(queue, "r", GrowthLimits(max_jobs=50))
    assert await set_limits(queue, "r", GrowthLimits(max_depth=4)) == GrowthLimits(max_depth=4, max_jobs=50)
    assert await limits_of(queue, "r") == GrowthLimits(max_depth=4, max_jobs=50)
    assert await limits_of(queue, "other") == GrowthLimits()


@handler("page")
async def page(job: Any) -> Result:
    """Every page leads to two more, for ever."""
    number = job.payload["number"]
    return Result({"number": number}, [new_job("page", {"number": 2 * number + each}) for each in (0, 1)])


async def crawled(queue: MemoryQueue, tmp_path: Path, crawler: Any = page) -> list[dict[str, Any]]:
    await queue.submit([new_job("page", {"number": 1}, run="r")])
    config = WorkerConfig(
        queue_url="memory://",
        handler_file=tmp_path / "handlers.py",
        worker=WORKER,
        concurrency=4,
        stop=(RunFinished(),),
        keep_awake=False,
    )
    with capture_logs() as said:
        report = await work(config, handlers={"page": crawler}, queue=queue)
    assert (report.failed, report.exit_code) == (0, 0)
    return [dict(line) for line in said if "left out" in line["event"]]


async def test_a_worker_goes_as_deep_as_the_run_may_and_ends(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await set_limits(queue, "r", GrowthLimits(max_depth=4))
    said = await crawled(queue, tmp_path)
    jobs = await queue.jobs(Selection(run="r"))
    assert len(jobs) == 2**5 - 1
    assert {job.state for job in jobs} == {State.COMPLETED}
    assert max(job.depth for job in jobs) == 4
    assert await left_out(queue, "r") == LeftOut(too_deep=2**5)
    assert (said[0]["run"], said[0]["log_level"]) == ("r", "warning")


async def test_a_worker_stops_adding_when_the_run_has_its_number(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await set_limits(queue, "r", GrowthLimits(max_jobs=100))
    said = await crawled(queue, tmp_path)
    counts = totals(await queue.stats("r"))
    assert (counts.completed, counts.total) == (100, 100)
    assert (await left_out(queue, "r")).too_many == 2 * 100 - 99
    assert said


@handler("page")
async def with_a_menu(job: Any) -> Result:
    """Every page shows the same menu, and one page more."""
    number = job.payload["number"]
    return Result({"number": number}, [*some(30), *some(1, number + 1)])


async def test_what_the_run_has_already_takes_no_room(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await set_limits(queue, "r", GrowthLimits(max_jobs=100))
    await crawled(queue, tmp_path, with_a_menu)
    assert totals(await queue.stats("r")).completed == 100
    assert (await left_out(queue, "r")).too_many == 1


async def test_what_a_lost_lease_was_to_add_is_not_known_to_be_there() -> None:
    queue = MemoryQueue()
    await set_limits(queue, "r", GrowthLimits(max_jobs=4))
    limited = GrowthLimitedQueue(queue, ManualClock())
    lost = await lease_of(queue, 1)
    await queue.cancel(Selection(ids=frozenset({lost.job.id})))
    assert await limited.settle([Settlement(lost, Completed(None, tuple(some(2, 5))))]) == [False]
    held = await lease_of(queue, 2)
    assert await limited.settle([Settlement(held, Completed(None, tuple(some(2, 7) + some(2, 5))))]) == [True]
    assert totals(await queue.stats("r")).total == 4


async def test_a_run_without_limits_grows_as_it_likes_beside_one_with(tmp_path: Path) -> None:
    queue = MemoryQueue()
    await set_limits(queue, "other", GrowthLimits(max_depth=0))
    limited = GrowthLimitedQueue(queue, ManualClock())
    await queue.submit([new_job("page", {"number": 1}, run=run) for run in ("r", "other")])
    leases = await queue.claim(Want(worker=WORKER, limit=2))
    assert (
        await limited.settle([Settlement(lease, Completed(None, tuple(some(2, 5)))) for lease in leases]) == [True] * 2
    )
    assert {count.run: count.total for count in await queue.stats()} == {"r": 3, "other": 1}


async def lease_of(queue: MemoryQueue, number: int) -> Lease:
    await queue.submit([new_job("page", {"number": number}, run="r")])
    (lease,) = await queue.claim(Want(worker=WORKER, limit=1))
    return lease


async def test_what_was_refused_is_not_counted_as_left_out() -> None:
    queue = MemoryQueue()
    await set_limits(queue, "r", GrowthLimits(max_depth=0))
    limited = GrowthLimitedQueue(queue, ManualClock())
    settlement = Settlement(await lease_of(queue, 1), Completed(None, tuple(some(2, 5))))
    assert await limited.settle([settlement, settlement]) == [True, False]
    assert await limited.settle([settlement]) == [False]
    await limited.tell()
    assert await left_out(queue, "r") == LeftOut(too_deep=2)


async def test_a_limit_that_is_raised_counts_within_half_a_minute() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    await set_limits(queue, "r", GrowthLimits(max_depth=0))
    limited = GrowthLimitedQueue(queue, clock)
    await limited.settle([Settlement(await lease_of(queue, 1), Completed(None, tuple(some(1, 5))))])
    assert totals(await queue.stats("r")).total == 1
    await set_limits(queue, "r", GrowthLimits(max_depth=1))
    clock.advance(30)
    await limited.settle([Settlement(await lease_of(queue, 2), Completed(None, tuple(some(1, 5))))])
    assert totals(await queue.stats("r")).total == 3


async def test_jobs_that_were_pruned_with_their_run_take_room_when_they_are_found_again() -> None:
    """Half a minute after the run was submitted again, at most."""
    clock = ManualClock()
    queue = MemoryQueue(clock)
    limited = GrowthLimitedQueue(queue, clock)
    for _ in range(2):
        await set_limits(queue, "r", GrowthLimits(max_jobs=4))
        clock.advance(30)
        await limited.settle([Settlement(await lease_of(queue, 1), Completed(None, tuple(some(9, 5))))])
        assert totals(await queue.stats("r")).total == 4
        await queue.cancel(Selection(run="r"))
        await prune(queue, Selection(run="r"))


async def test_what_cannot_be_counted_now_is_counted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    await set_limits(queue, "r", GrowthLimits(max_depth=0))
    limited = GrowthLimitedQueue(queue, clock)
    await limited.settle([Settlement(await lease_of(queue, 1), Completed(None, tuple(some(3, 5))))])

    async def unavailable(*_: Any) -> Any:
        raise QueueUnavailableError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(queue, "swap_entries", unavailable)
        await limited.tell()
    await limited.tell()
    await limited.tell()
    assert await left_out(queue, "r") == LeftOut(too_deep=3)


async def test_several_workers_keep_to_the_number_and_count_all_they_leave_out() -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    await set_limits(queue, "r", GrowthLimits(max_jobs=200))
    workers = [GrowthLimitedQueue(queue, clock) for _ in range(4)]
    await queue.submit([new_job("page", {"number": -number}, run="r") for number in range(1, 101)])
    added = iter(range(0, 10_000, 3))

    async def one(limited: GrowthLimitedQueue) -> None:
        for lease in await queue.claim(Want(worker=WORKER, limit=1, lease=timedelta(hours=1))):
            await limited.settle([Settlement(lease, Completed(None, tuple(some(3, next(added)))))])

    for _ in range(25):
        await asyncio.gather(*map(one, workers))
        clock.advance(1)
    for limited in workers:
        await limited.tell()
    total = totals(await queue.stats("r")).total
    assert total == 200
    assert total - 100 + (await left_out(queue, "r")).too_many == 300


class Stalling(MemoryQueue):
    """Its next settlement waits until it is let go."""

    def __init__(self, clock: ManualClock) -> None:
        super().__init__(clock)
        self.reached, self.go = asyncio.Event(), asyncio.Event()

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if not self.reached.is_set():
            self.reached.set()
            await self.go.wait()
        return await super().settle(settlements)


async def test_room_that_another_has_taken_is_not_given_twice() -> None:
    clock = ManualClock()
    queue = Stalling(clock)
    await set_limits(queue, "r", GrowthLimits(max_jobs=5))
    slow, quick = await lease_of(queue, 1), await lease_of(queue, 2)
    first = asyncio.ensure_future(
        GrowthLimitedQueue(queue, clock).settle([Settlement(slow, Completed(None, tuple(some(2, 5))))])
    )
    await queue.reached.wait()
    await GrowthLimitedQueue(queue, clock).settle([Settlement(quick, Completed(None, tuple(some(3, 10))))])
    assert totals(await queue.stats("r")).total == 3
    queue.go.set()
    assert await first == [True]
    assert totals(await queue.stats("r")).total == 5


async def test_room_that_a_dead_worker_had_taken_is_free_again() -> None:
    clock = ManualClock()
    queue = Stalling(clock)
    await set_limits(queue, "r", GrowthLimits(max_jobs=5))
    lost = Settlement(await lease_of(queue, 1), Completed(None, tuple(some(3, 5))))
    dying = asyncio.ensure_future(GrowthLimitedQueue(queue, clock).settle([lost]))
    await queue.reached.wait()
    clock.advance(timedelta(hours=1).total_seconds())
    assert (await queue.reap()).returned == 1
    held = [await lease_of(queue, 2), *await queue.claim(Want(worker=WORKER, limit=1))]
    await GrowthLimitedQueue(queue, clock).settle([Settlement(held[0], Completed(None, tuple(some(3, 10))))])
    assert totals(await queue.stats("r")).total == 5
    # Should it come back to life, it has lost its lease, and all that came with it.
    queue.go.set()
    assert await dying == [False]
    assert totals(await queue.stats("r")).total == 5


async def test_what_had_no_answer_takes_room_when_it_is_settled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()
    queue = MemoryQueue(clock)
    await set_limits(queue, "r", GrowthLimits(max_jobs=4))
    limited = GrowthLimitedQueue(queue, clock)
    again = Settlement(await lease_of(queue, 1), Completed(None, tuple(some(2, 5))))
    other = Settlement(await lease_of(queue, 2), Completed(None, tuple(some(2, 10))))

    async def unavailable(*_: Any) -> Any:
        raise QueueUnavailableError("not now")

    with monkeypatch.context() as patch:
        patch.setattr(queue, "settle", unavailable)
        with pytest.raises(QueueUnavailableError):
            await limited.settle([again])
    assert await limited.settle([other, again]) == [True, True]
    assert totals(await queue.stats("r")).total == 4
