"""Leases while the machine's clock is set: the dead are found a lease later, the living lose nothing."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
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


_PROCESS = """
import asyncio, sys, time
from datetime import timedelta

real, ahead = time.time, float(sys.argv[2])
time.time = lambda: real() + ahead

from longshore.clock import SystemClock
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement

async def main():
    queue = await open_queue(sys.argv[1], clock=SystemClock())
    if sys.argv[3] == "reap":
        reaped = await queue.reap()
        print(reaped.returned + reaped.failed, len(await queue.present_workers()))
        return
    leases = await queue.claim(Want(worker=WorkerId.new("alive"), limit=100, lease=timedelta(seconds=300)))
    print(len(leases), flush=True)
    sys.stdin.readline()
    print(sum(await queue.settle([Settlement(lease, Completed()) for lease in leases])))

asyncio.run(main())
"""


async def test_a_process_for_which_the_clock_is_an_hour_ahead_takes_no_lease_of_a_live_one(file: Path) -> None:
    url = f"sqlite:///{file}"
    queue = await open_queue(url)
    await queue.submit([new_job("page", {"n": number}, run="r") for number in range(100)])
    await queue.close()

    def process(ahead: int, does: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", _PROCESS, url, str(ahead), does]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with process(0, "work") as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "100\n"
        with process(3600, "reap") as later:
            assert later.communicate()[0] == "0 0\n"
        assert worker.communicate("go\n")[0] == "100\n"


async def test_each_start_of_the_machine_stores_one_offset(file: Path, tables: sqlite3.Connection) -> None:
    for start in (1_700_000_000.0, 1_700_100_000.0):
        queue = await open_queue(f"sqlite:///{file}", clock=ManualClock(start))
        await queue.renew(WorkerId.new("w"), LEASE)
        await queue.close()
        stored = tables.execute("SELECT value FROM note WHERE shelf = 'lease clock'").fetchall()
        assert [float(value) for (value,) in stored] == [start]


async def test_a_queue_on_a_machine_whose_start_is_unknown_uses_the_time_of_day(file: Path) -> None:
    clock = ManualClock()
    clock.boot = ""
    queue = await open_queue(f"sqlite:///{file}", clock=clock)
    await queue.submit([new_job("page", {}, run="r")])
    await queue.claim(Want(worker=WorkerId.new("dead"), lease=LEASE))
    assert await queue.reap() == Reaped()
    clock.step_wall(61)
    assert await queue.reap() == Reaped(returned=1)
    await queue.close()
