"""Follow-on jobs that are added without a claim: they keep to the limits of their run, exactly, beside workers."""

from __future__ import annotations

import pytest

from longshore.clock import ManualClock
from longshore.extensions.submissions import LEASE, being_submitted
from longshore.extensions.transfer import Carried
from longshore.job import Job, JobName, new_job
from longshore.lease import Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Settlement
from longshore.queue import totals
from longshore.runs.control.growth_limits import GrowthLimits, LeftOut, left_out, set_limits
from longshore.wrappers.admission import Admission
from longshore.wrappers.worker_queue import WorkerQueue


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def queue(clock: ManualClock) -> MemoryQueue:
    """A run of two jobs that may have ten."""
    queue = MemoryQueue(clock)
    await set_limits(queue, "r", GrowthLimits(max_jobs=10, max_depth=3))
    await queue.submit([new_job("page", {"n": "first"}, run="r"), new_job("page", {"n": "second"}, run="r")])
    return queue


def found(count: int, name: str, *, depth: int = 1) -> list[Job]:
    """Follow-on jobs that are not in the run yet."""
    parent = JobName("page", "parent") if depth else None
    keys = [f"{name}-{number}" for number in range(count)]
    return [Job(id="", run="r", kind="page", key=key, payload={}, parent=parent, depth=depth) for key in keys]


async def test_what_is_admitted_and_what_a_worker_adds_are_together_no_more_than_the_limit(
    queue: MemoryQueue, clock: ManualClock
) -> None:
    """The worker settles between the answer and the addition: the quota of the other is not free."""
    ours, theirs = WorkerQueue(queue, clock), WorkerQueue(queue, clock)
    [lease] = await theirs.claim(Want(worker=WorkerId.new("w")))
    async with Admission(ours, clock) as admission:
        jobs = await admission.fitting(found(6, "ours"))
        many = tuple(new_job("page", {"n": number}) for number in range(20))
        await theirs.settle([Settlement(lease, Completed(None, many))])
        await queue.take_over([Carried(job) for job in jobs])
    assert len(jobs) == 6
    assert totals(await queue.stats("r")).total == 10


@pytest.mark.parametrize("ends", ["well", "dies"])
async def test_quota_that_was_not_used_is_free_again(queue: MemoryQueue, clock: ManualClock, ends: str) -> None:
    """A process that died is known by its registration, which expires."""
    dead = Admission(WorkerQueue(queue, clock), clock)
    await dead.fitting(found(8, "dead"))
    if ends == "well":
        await dead.__aexit__(None, None, None)
    else:
        clock.advance(LEASE.total_seconds() + 1)
        await queue.reap()
    async with Admission(WorkerQueue(queue, clock), clock) as admission:
        assert len(await admission.fitting(found(20, "ours"))) == 8
    if ends == "dies":
        await dead.__aexit__(None, None, None)


async def test_jobs_beyond_the_limits_are_counted_by_reason(queue: MemoryQueue, clock: ManualClock) -> None:
    worker_queue = WorkerQueue(queue, clock)
    async with Admission(worker_queue, clock) as admission:
        kept = await admission.fitting([*found(2, "deep", depth=4), *found(9, "many", depth=3)])
    await worker_queue.limits.tell()
    assert [job.key for job in kept] == [f"many-{number}" for number in range(8)]
    assert await left_out(queue, "r") == LeftOut(too_deep=2, too_many=1)


async def test_jobs_that_the_run_has_and_jobs_without_a_parent_need_no_quota(
    queue: MemoryQueue, clock: ManualClock
) -> None:
    known = [Carried(job) for job in found(8, "known")]
    await queue.take_over(known)
    async with Admission(WorkerQueue(queue, clock), clock) as admission:
        assert len(await admission.fitting([*found(8, "known"), *found(3, "submitted", depth=0)])) == 11


async def test_a_run_is_not_finished_while_jobs_are_admitted(queue: MemoryQueue, clock: ManualClock) -> None:
    async with Admission(WorkerQueue(queue, clock), clock) as admission:
        await admission.fitting(found(1, "ours"))
        assert await being_submitted(queue, "r")
    assert not await being_submitted(queue, "r")
