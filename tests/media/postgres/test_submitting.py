"""Large submissions go by COPY, and nobody can tell: what repeats is passed over, and all of it is there or nothing."""

from __future__ import annotations

import asyncio

import asyncpg
import pytest

from longshore.clock import SystemClock
from longshore.errors import UsageError
from longshore.job import NewJob, new_job
from longshore.lease import Want, WorkerId
from longshore.media.postgres import PostgresQueue
from longshore.media.postgres.bulk import MIN_COPY_JOBS
from longshore.media.postgres.location import locate
from longshore.queue import Selection, Submitted, each_job, totals

MANY = 2 * MIN_COPY_JOBS


def jobs(first: int, number: int = MANY) -> list[NewJob]:
    return [
        new_job("page", {"n": n}, run="run", partition=f"{n % 3}", priority=n % 2) for n in range(first, first + number)
    ]


async def test_many_new_jobs_are_all_there_in_order(queue: PostgresQueue) -> None:
    assert await queue.submit(jobs(0)) == Submitted(MANY, 0)
    found = [job async for job in each_job(queue, Selection())]
    assert [(job.payload["n"], job.partition, job.priority) for job in found] == [
        (n, f"{n % 3}", n % 2) for n in range(MANY)
    ]
    assert {job.submitted_at > 0 for job in found} == {True}
    assert totals(await queue.stats()).pending == MANY
    leases = await queue.claim(Want(worker=WorkerId.new(), limit=10))
    assert [lease.job.payload["n"] for lease in leases] == [*range(0, 20, 2)]


@pytest.mark.parametrize("first", [0, 1, MANY // 2, MANY - 1], ids=["all", "all but the last", "half", "one"])
async def test_what_is_known_is_passed_over(queue: PostgresQueue, first: int) -> None:
    await queue.submit(jobs(0))
    assert await queue.submit(jobs(first)) == Submitted(first, MANY - first)
    assert totals(await queue.stats()).pending == MANY + first


async def test_what_repeats_within_is_passed_over(queue: PostgresQueue) -> None:
    assert await queue.submit([*jobs(0), *jobs(5, 3)]) == Submitted(MANY, 3)
    assert totals(await queue.stats()).pending == MANY


async def test_delays_are_kept(queue: PostgresQueue) -> None:
    now = SystemClock().now()
    late = [new_job("page", {"late": n}, not_before=now + 3600) for n in range(3)]
    past = [new_job("page", {"past": n}, not_before=now - 3600, priority=-1) for n in range(3)]
    await queue.submit([*late, *jobs(0), *past])
    leases = await queue.claim(Want(worker=WorkerId.new(), limit=2 * MANY))
    assert len(leases) == MANY + 3
    assert [lease.job.payload for lease in leases[:3]] == [{"past": 0}, {"past": 1}, {"past": 2}]


async def test_two_who_submit_the_same_at_once_add_it_once(queue: PostgresQueue, url: str) -> None:
    other = await PostgresQueue.open(url, SystemClock())
    backwards = [*reversed(jobs(0))]
    answers = await asyncio.gather(queue.submit(jobs(0)), other.submit(backwards), queue.submit(jobs(0)))
    assert sum(answer.new for answer in answers) == MANY
    assert totals(await queue.stats()).pending == MANY
    await other.close()


async def test_a_copy_that_breaks_in_the_middle_leaves_nothing(queue: PostgresQueue, url: str) -> None:
    schema = locate(url).quoted_schema
    admin = await asyncpg.connect(locate(url).dsn)
    await admin.execute(f"alter table {schema}.ready add constraint breaks check (job < {MANY - 10})")
    with pytest.raises(Exception, match="breaks"):
        await queue.submit(jobs(0))
    await admin.execute(f"alter table {schema}.ready drop constraint breaks")
    await admin.close()
    assert await queue.jobs(Selection()) == []
    assert await queue.stats() == []
    assert await queue.submit(jobs(0)) == Submitted(MANY, 0)


@pytest.mark.parametrize("number", [1, MANY])
async def test_text_that_cannot_be_stored_is_refused_and_nothing_is_added(queue: PostgresQueue, number: int) -> None:
    with pytest.raises(UsageError, match="NUL"):
        await queue.submit([*jobs(0, number), new_job("page", {"n": -1}, run="run", key="a\0b")])
    assert await queue.jobs(Selection()) == []
