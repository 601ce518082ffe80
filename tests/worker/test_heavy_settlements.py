"""Outcomes that take longer to write than a call may: they are divided, and the one that is too heavy fails alone."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from longshore.clock import ManualClock
from longshore.errors import QueueTimeoutError
from longshore.handlers.handler import handler
from longshore.handlers.result import Result
from longshore.job import State, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Released, Settlement
from longshore.queue import Selection
from longshore.settlement.repair import too_heavy, unstorable
from longshore.settlement.weight import HEAVIEST, batches, weight
from longshore.worker import MaxWork

EMPTY = msgspec.Raw(b"null")


class Slow(MemoryQueue):
    """Takes too long for calls with more than `most` follow-on jobs, or with more than `together` settlements."""

    def __init__(self, clock: ManualClock, *, most: int = 10**9, together: int = 10**9) -> None:
        super().__init__(clock)
        self.most, self.together = most, together
        self.calls: list[tuple[int, int]] = []
        """Settlements and follow-on jobs of each call."""

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        follow_ons = sum(len(each.outcome.jobs) for each in settlements if isinstance(each.outcome, Completed))
        self.calls.append((len(settlements), follow_ons))
        if follow_ons > self.most or len(settlements) > self.together:
            raise QueueTimeoutError("took too long")
        return await super().settle(settlements)


@handler("sitemap", timeout=3600)
async def sitemap(job: Any) -> Any:
    return Result(None, [new_job("page", {"of": job.payload["number"], "n": n}) for n in range(job.payload["jobs"])])


def sitemaps(*sizes: int) -> list[Any]:
    return [new_job("sitemap", {"number": number, "jobs": size}) for number, size in enumerate(sizes)]


async def test_batches_are_weighed_before_they_are_written(run_worker: Any, advance: Any, clock: ManualClock) -> None:
    queue = Slow(clock, most=HEAVIEST)
    await queue.submit(sitemaps(*[4_000] * 8))
    report = await advance(asyncio.create_task(run_worker(queue, sitemap, clock=clock, stop=(MaxWork(8),))), clock)
    assert (report.completed, report.exit_code) == (8, 0)
    assert max(follow_ons for _, follow_ons in queue.calls) <= HEAVIEST
    assert sum(follow_ons for _, follow_ons in queue.calls) == 32_000, "nothing is written twice"


async def test_a_batch_that_takes_too_long_is_divided_until_it_is_written(
    run_worker: Any, advance: Any, clock: ManualClock
) -> None:
    queue = Slow(clock, together=3)
    await queue.submit(sitemaps(*[0] * 40))
    working = run_worker(queue, sitemap, clock=clock, concurrency=40, batch_size=40)
    report = await advance(asyncio.create_task(working), clock)
    assert (report.completed, report.stale, report.exit_code) == (40, 0, 0)
    assert len(queue.calls) < 60, "halved, not written one by one"


async def test_an_outcome_that_is_too_heavy_even_alone_fails_with_the_reason_and_no_other_does(
    run_worker: Any, advance: Any, clock: ManualClock
) -> None:
    queue = Slow(clock, most=HEAVIEST)
    await queue.submit(sitemaps(3, HEAVIEST + 1, 5))
    report = await advance(asyncio.create_task(run_worker(queue, sitemap, clock=clock, stop=(MaxWork(3),))), clock)
    light, heavy, last = (job for job in await queue.jobs(Selection(kinds=frozenset({"sitemap"}))))
    assert [light.state, heavy.state, last.state] == [State.COMPLETED, State.FAILED, State.COMPLETED]
    assert heavy.failure is not None
    assert heavy.failure.message.startswith("the outcome is too heavy for this queue: 10,001 follow-on jobs and about")
    assert (report.exit_code, report.failed) == (0, 1)


async def test_a_light_outcome_is_not_blamed_for_a_queue_that_is_slow(
    run_worker: Any, advance: Any, clock: ManualClock
) -> None:
    queue = Slow(clock, together=0)
    await queue.submit(sitemaps(100))
    task = asyncio.create_task(run_worker(queue, sitemap, clock=clock, stop=(MaxWork(1),)))
    while len(queue.calls) < 10:
        await asyncio.sleep(0)
        clock.advance(1)
    queue.together = 10
    report = await advance(task, clock)
    assert (report.completed, report.exit_code) == (1, 0)


@pytest.fixture
async def lease() -> Lease:
    queue = MemoryQueue()
    await queue.submit(sitemaps(1))
    (found,) = await queue.claim(Want(worker=WorkerId.new("w")))
    return found


def test_follow_on_jobs_and_bytes_count(lease: Lease) -> None:
    jobs = tuple(new_job("page", {"n": n, "text": "x" * 4096}) for n in range(10))
    assert weight(Settlement(lease, Released())) == 1
    assert weight(Settlement(lease, Completed(EMPTY, jobs))) == 21
    assert weight(Settlement(lease, Completed(msgspec.Raw(b"0" * 8192)))) == 3


def test_every_settlement_is_in_one_batch_in_order(lease: Lease) -> None:
    heavy = Settlement(lease, Completed(msgspec.Raw(b"0" * 4096 * (HEAVIEST + 1))))
    some = [Settlement(lease, Released(), float(n)) for n in range(5)]
    given = [*some[:2], heavy, *some[2:]]
    assert batches(given) == [some[:2], [heavy], some[2:]]
    assert batches([]) == []


@pytest.mark.parametrize("instead", [too_heavy, unstorable])
def test_a_failure_that_is_written_instead_of_a_result_says_which_version_made_it(lease: Lease, instead: Any) -> None:
    done = Settlement(lease, Completed(EMPTY), 1.0).made_by("0123456789ab")
    failed = instead(done, ValueError("no"))
    assert (failed.seconds, failed.outcome.failure.handler_version) == (1.0, "0123456789ab")
