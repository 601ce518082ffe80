"""Leases while the machine's clock is set back: the dead are found a lease later, the living lose nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from longshore.clock import ManualClock
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.media.sqlite import SqliteQueue
from longshore.queue import Queue, Reaped

LEASE = timedelta(seconds=60)


@pytest.fixture
def earlier(clock: ManualClock) -> ManualClock:
    """The clock after it was set back by hours."""
    return ManualClock(clock.now() - 7200)


@pytest.fixture
async def later_opened(queue: Queue, file: Path, earlier: ManualClock) -> AsyncIterator[Queue]:
    """The same queue, by that clock."""
    later_opened = await open_queue(f"sqlite:///{file}", clock=earlier)
    yield later_opened
    await later_opened.close()


async def test_a_dead_worker_is_found_a_lease_after_the_clock_was_set_back(
    queue: Queue, later_opened: Queue, earlier: ManualClock
) -> None:
    await queue.submit([new_job("page", {}, run="r")])
    await queue.claim(Want(worker=WorkerId.new("dead"), lease=LEASE))
    assert await later_opened.reap() == Reaped()
    earlier.advance(59)
    assert await later_opened.reap() == Reaped()
    earlier.advance(2)
    assert await later_opened.reap() == Reaped(returned=1)


async def test_a_live_worker_keeps_its_leases_and_its_place_while_the_clock_is_set_back(
    queue: SqliteQueue, later_opened: SqliteQueue, earlier: ManualClock
) -> None:
    await queue.submit([new_job("page", {}, run="r")])
    alive = WorkerId.new("alive")
    await queue.register(alive, LEASE, WorkerInfo())
    [lease] = await queue.claim(Want(worker=alive, lease=LEASE))
    for _ in range(4):
        assert await later_opened.reap() == Reaped()
        earlier.advance(40)
        assert await later_opened.renew(alive, LEASE) == [lease.held]
    assert await later_opened.present_workers() == [PresentWorker(alive, WorkerInfo())]


async def test_clocks_that_are_read_a_little_out_of_order_change_nothing(
    queue: Queue, file: Path, clock: ManualClock, tables: sqlite3.Connection
) -> None:
    await queue.renew(WorkerId.new("w"), LEASE)
    before = tables.execute("SELECT deadline, lease FROM worker").fetchall()
    assert before == [(clock.now() + 60, 60)]
    behind = await open_queue(f"sqlite:///{file}", clock=ManualClock(clock.now() - 0.5))
    assert await behind.reap() == Reaped()
    assert tables.execute("SELECT deadline, lease FROM worker").fetchall() == before
    await behind.close()
