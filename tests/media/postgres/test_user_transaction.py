"""Submission and settlement in a transaction of the user's own: both become true together, or neither."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import asyncpg
import psycopg
import pytest

from longshore.errors import UsageError
from longshore.job import State, new_job
from longshore.lease import Want, WorkerId
from longshore.media.postgres import PostgresQueue
from longshore.media.postgres.location import locate
from longshore.outcome import Completed, Settlement
from longshore.queue import Selection, Submitted

JOBS = [new_job("page", {"n": n}, partition=f"{n % 3}", not_before=1.0 if n == 2 else None) for n in range(5)]
WANT = Want(worker=WorkerId.new("anna"), limit=10)


class RolledBackError(Exception):
    pass


@pytest.fixture(params=["asyncpg", "psycopg"])
async def mine(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Any]:
    """The user's own connection, of either driver."""
    connection: Any
    if request.param == "asyncpg":
        connection = await asyncpg.connect(locate(url).dsn)
    else:
        connection = await psycopg.AsyncConnection.connect(locate(url).dsn, autocommit=True)
    yield connection
    await connection.close()


async def test_jobs_appear_when_the_user_commits(queue: PostgresQueue, mine: Any) -> None:
    async with mine.transaction():
        assert await queue.submit_in(mine, [*JOBS, JOBS[0]]) == Submitted(5, 1)
        assert await queue.jobs(Selection()) == []
    assert [job.payload["n"] for job in await queue.jobs(Selection())] == [0, 1, 2, 3, 4]


async def test_jobs_never_were_when_the_user_rolls_back(queue: PostgresQueue, mine: Any) -> None:
    with pytest.raises(RolledBackError):
        async with mine.transaction():
            await queue.submit_in(mine, JOBS)
            raise RolledBackError
    assert await queue.jobs(Selection()) == []
    assert await queue.stats() == []
    # The lanes were undone with them; nobody must remember them.
    assert await queue.submit(JOBS) == Submitted(5, 0)
    assert len(await queue.claim(WANT)) == 5


async def test_a_settlement_is_true_with_the_users_own_write(queue: PostgresQueue, mine: Any) -> None:
    await queue.submit(JOBS[:1])
    (lease,) = await queue.claim(WANT)
    settlement = Settlement(lease, Completed({"ok": True}, jobs=(new_job("next", {"n": 9}),)), 0.5)
    with pytest.raises(RolledBackError):
        async with mine.transaction():
            assert await queue.settle_in(mine, [settlement]) == [True]
            raise RolledBackError
    assert [(job.kind, job.state) for job in await queue.jobs(Selection())] == [("page", State.CLAIMED)]
    async with mine.transaction():
        assert await queue.settle_in(mine, [settlement]) == [True]
    assert [(job.kind, job.state) for job in await queue.jobs(Selection())] == [
        ("page", State.COMPLETED),
        ("next", State.PENDING),
    ]
    async with mine.transaction():
        assert await queue.settle_in(mine, [settlement]) == [False]


async def test_no_reaper_waits_for_a_users_transaction(queue: PostgresQueue, mine: Any) -> None:
    await queue.submit(JOBS[:1])
    (lease,) = await queue.claim(WANT)
    await queue.renew(WANT.worker, timedelta(microseconds=1))
    async with mine.transaction():
        assert await queue.settle_in(mine, [Settlement(lease, Completed())]) == [True]
        assert (await queue.reap()).returned == 0
    (job,) = await queue.jobs(Selection())
    assert job.state is State.COMPLETED


async def test_a_connection_of_neither_driver_is_refused(queue: PostgresQueue) -> None:
    with pytest.raises(UsageError, match="asyncpg"):
        await queue.submit_in(object(), JOBS)
