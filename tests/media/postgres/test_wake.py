"""Who waits is woken by who adds work, whatever adds it, and a flood of work is a trickle of notifications."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from tests.media.postgres.observe import until

from longshore.clock import SystemClock
from longshore.errors import Failure
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.postgres import PostgresQueue, wake
from longshore.media.postgres.location import locate
from longshore.outcome import Completed, Failed, Released, Settlement
from longshore.queue import Selection

WANT = Want(worker=WorkerId.new(), limit=5)


@pytest.fixture
async def other(url: str, queue: PostgresQueue) -> AsyncIterator[PostgresQueue]:
    opened = await PostgresQueue.open(url, SystemClock())
    yield opened
    await opened.close()


@pytest.fixture(autouse=True)
def only_notifications_wake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wake, "LISTENING_SLEEP", 3600.0)


async def listening(url: str) -> None:
    """Until somebody listens on this queue's channel."""
    admin = await asyncpg.connect(locate(url).dsn)
    listeners = f"select pid from pg_stat_activity where query = 'LISTEN \"{locate(url).channel}\"'"
    await until(admin, listeners, bool)
    await admin.close()


async def woken_by(queue: PostgresQueue, url: str, act: Callable[[], Awaitable[object]]) -> bool:
    waiting = asyncio.ensure_future(queue.wait(WANT, timedelta(seconds=3600)))
    await listening(url)
    await act()
    return await asyncio.wait_for(waiting, 30)


async def test_a_submission_wakes(queue: PostgresQueue, other: PostgresQueue, url: str) -> None:
    assert await woken_by(queue, url, lambda: other.submit([new_job("page", {"n": 1})]))


@pytest.mark.parametrize(
    "outcome",
    [Released(), Failed(Failure("unknown", "no")), Completed(jobs=(new_job("page", {"n": 2}),))],
    ids=["released", "failed", "follow-on"],
)
async def test_a_settlement_that_adds_work_wakes(
    queue: PostgresQueue, other: PostgresQueue, url: str, outcome: Released | Failed | Completed
) -> None:
    await other.submit([new_job("page", {"n": 1})])
    (lease,) = await other.claim(WANT)
    assert await woken_by(queue, url, lambda: other.settle([Settlement(lease, outcome)]))


async def test_a_reap_wakes(queue: PostgresQueue, other: PostgresQueue, url: str) -> None:
    await other.submit([new_job("page", {"n": 1})])
    await other.claim(WANT)
    await other.renew(WANT.worker, timedelta(microseconds=1))
    assert await woken_by(queue, url, other.reap)


async def test_a_retry_wakes(queue: PostgresQueue, other: PostgresQueue, url: str) -> None:
    await other.submit([new_job("page", {"n": 1})])
    await other.cancel(Selection())
    assert await woken_by(queue, url, lambda: other.retry(Selection()))


async def test_a_delayed_job_wakes_when_it_is_due(queue: PostgresQueue, other: PostgresQueue, url: str) -> None:
    soon = SystemClock().now() + 0.3
    assert await woken_by(queue, url, lambda: other.submit([new_job("page", {"n": 1}, not_before=soon)]))


async def test_the_last_of_a_burst_is_heard_and_most_are_not_sent(queue: PostgresQueue, url: str) -> None:
    heard: list[str] = []
    ear = await asyncpg.connect(locate(url).dsn)
    arrived = asyncio.Event()

    def hear(*message: object) -> None:
        heard.append(str(message[-1]))
        arrived.set()

    await ear.add_listener(locate(url).channel, hear)
    for n in range(200):
        arrived.clear()
        await queue.submit([new_job("page", {"n": n})])
    await asyncio.wait_for(arrived.wait(), 30)
    assert len(heard) < 150
    await ear.close()


async def test_who_hears_what_it_wants_by_name_looks_no_further(
    queue: PostgresQueue, other: PostgresQueue, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[str] = []
    call = PostgresQueue._call

    async def counted(self: PostgresQueue, function: str, *arguments: object, repeatable: bool = False) -> object:
        looks.append(function)
        return await call(self, function, *arguments, repeatable=repeatable)

    monkeypatch.setattr(PostgresQueue, "_call", counted)
    assert await woken_by(queue, url, lambda: other.submit([new_job("page", {"n": 1})]))
    assert looks == ["claimable"]


async def test_what_somebody_else_wants_wakes_nobody_for_long(
    queue: PostgresQueue, other: PostgresQueue, url: str
) -> None:
    want = Want(worker=WorkerId.new(), kinds=frozenset({"list"}), partitions=frozenset({"CA"}))
    waiting = asyncio.ensure_future(queue.wait(want, timedelta(seconds=3600)))
    await listening(url)
    await other.submit([new_job("page", {"n": 1}), new_job("list", {"n": 1}, partition="TX")])
    await other.submit([new_job("list", {"n": 2}, partition="CA", not_before=SystemClock().now() + 3600)])
    await asyncio.sleep(0)
    assert not waiting.done()
    await other.submit([new_job("list", {"n": 3}, partition="CA")])
    assert await asyncio.wait_for(waiting, 30)
    (lease,) = await queue.claim(want)
    assert lease.job.payload == {"n": 3}


def test_what_is_announced_fits_into_a_notification() -> None:
    assert wake.announce([new_job("page", {"n": 1}, run="r", partition="p")]) == '[["r","page","p"]]'
    assert wake.announce([new_job("page", {"n": n}, partition=str(n)) for n in range(50)]) == ""
    assert wake.announce([new_job("page" * 2500, {"n": 1})]) == ""


@pytest.mark.parametrize("ended_by", ["cancelled", "closed"])
async def test_a_listener_that_is_ended_while_it_opens_leaves_no_connection(
    url: str, queue: PostgresQueue, monkeypatch: pytest.MonkeyPatch, ended_by: str
) -> None:
    opened: list[asyncpg.Connection[asyncpg.Record]] = []
    listen = asyncpg.Connection.add_listener
    reached, go_on = asyncio.Event(), asyncio.Event()

    async def slowly(connection: asyncpg.Connection[asyncpg.Record], *arguments: Any) -> None:
        opened.append(connection)
        reached.set()
        await go_on.wait()
        await listen(connection, *arguments)

    monkeypatch.setattr(asyncpg.Connection, "add_listener", slowly)
    listener = wake.NotificationListener(locate(url), SystemClock())
    opening = asyncio.ensure_future(listener.open())
    await reached.wait()
    if ended_by == "cancelled":
        opening.cancel()
        await asyncio.gather(opening, return_exceptions=True)
    else:
        asyncio.get_running_loop().call_soon(go_on.set)
        await listener.close()
    assert [connection.is_closed() for connection in opened] == [True]
