"""An idle waiter watches the file; it must notice every commit and must not mistake its own reading for one."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

from longshore.clock import ManualClock
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.sqlite.database import Database
from longshore.media.sqlite.select import prepare
from longshore.queue import Queue

WANT = Want(worker=WorkerId.new("w"))


async def test_the_version_changes_with_a_commit_and_only_with_a_commit(file: Path) -> None:
    database = await Database.open(file, prepare)
    before = database.version()
    await database.read(lambda db: db.execute("SELECT count(*) FROM job").fetchone())
    assert database.version() == before
    await database.write(lambda db: db.execute("UPDATE sequence SET next_job = next_job + 1").rowcount)
    assert database.version() != before
    await database.close()


async def test_a_waiter_is_woken_by_another_connection_while_its_clock_stands_still(queue: Queue, file: Path) -> None:
    waiter = asyncio.ensure_future(queue.wait(WANT, timedelta(hours=1)))
    other = await open_queue(f"sqlite:///{file}")
    await other.submit([new_job("page", {}, run="r")])
    assert await asyncio.wait_for(waiter, 30)
    await other.close()


async def test_a_waiter_sleeps_on_through_commits_that_bring_it_nothing(queue: Queue, clock: ManualClock) -> None:
    wanted = Want(worker=WorkerId.new("w"), kinds=frozenset({"wanted"}))
    waiter = asyncio.ensure_future(queue.wait(wanted, timedelta(seconds=60)))
    await queue.submit([new_job("other", {}, run="r"), new_job("wanted", {}, run="r", not_before=clock.now() + 30)])
    while not clock._sleepers:  # noqa: ASYNC110 - until it has looked and gone to sleep
        await asyncio.sleep(0)
    assert not waiter.done()
    clock.advance(31)
    assert await asyncio.wait_for(waiter, 30)
