"""Connections die in the middle of anything: by hand, by a restart, in an outage. Nothing is lost or settled twice."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from typing import Any

import asyncpg
import pytest
from tests.media.postgres.observe import until
from tests.services.postgres import PostgresServer

from longshore.clock import SystemClock
from longshore.errors import QueueTimeoutError, QueueUnavailableError
from longshore.job import State, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.postgres import PostgresQueue, connections
from longshore.media.postgres.location import locate
from longshore.outcome import Completed, Released, Settlement
from longshore.queue import Selection, each_job, totals

JOBS = 400
LEASE = timedelta(seconds=60)


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """A server that may be stopped and restarted: nobody else is on it."""
    with PostgresServer() as running:
        yield running


async def insist(call: Callable[[], Awaitable[Any]]) -> Any:
    """Call until it is answered, as a worker does."""
    while True:
        try:
            return await call()
        except QueueUnavailableError:
            await asyncio.sleep(0.01)


class Crew:
    """A worker that claims, settles with a follow-on job, renews, and gives back what it finds it holds unknowingly."""

    def __init__(self, queue: PostgresQueue, settled: Counter[str]) -> None:
        self.queue = queue
        self.settled = settled
        self.want = Want(worker=WorkerId.new(), limit=7, lease=LEASE)

    async def work(self) -> None:
        while totals(await insist(self.queue.stats)).remaining:
            leases = await insist(lambda: self.queue.claim(self.want))
            if not leases:
                await self._give_back_what_an_unheard_claim_took()
                continue
            done = [self._settlement(lease) for lease in leases]
            accepted = await insist(lambda batch=done: self.queue.settle(batch))  # type: ignore[misc]
            self.settled.update(s.lease.job.key for s, yes in zip(done, accepted, strict=True) if yes)

    def _settlement(self, lease: Any) -> Settlement:
        follow_ons = (new_job("next", {"of": lease.job.key}),) if lease.job.kind == "page" else ()
        return Settlement(lease, Completed({"key": lease.job.key}, follow_ons))

    async def _give_back_what_an_unheard_claim_took(self) -> None:
        held = await insist(lambda: self.queue.renew(self.want.worker, LEASE))
        for name in held:
            (job,) = await insist(lambda i=name.job_id: self.queue.jobs(Selection(ids=frozenset({i}))))  # type: ignore[misc]
            given_back = [Settlement(Lease(job, self.want.worker, 0.0), Released())]
            await insist(lambda back=given_back: self.queue.settle(back))  # type: ignore[misc]


async def all_settled_once(url: str, settled: Counter[str]) -> None:
    queue = await PostgresQueue.open(url, SystemClock())
    jobs = [job async for job in each_job(queue, Selection())]
    assert Counter(job.kind for job in jobs) == {"page": JOBS, "next": JOBS}
    assert {job.state for job in jobs} == {State.COMPLETED}
    assert {job.attempts for job in jobs} == {1}
    # A settlement whose answer got lost is refused when repeated, so some may not have been heard of; none twice.
    assert not [key for key, times in settled.items() if times > 1]
    assert totals(await queue.stats()).completed == 2 * JOBS
    await queue.close()


async def work_while(url: str, trouble: Callable[[], Awaitable[None]]) -> None:
    """Two workers do all the jobs while something happens to their connections."""
    queues = [await PostgresQueue.open(url, SystemClock()) for _ in range(2)]
    await queues[0].submit([new_job("page", {"n": n}) for n in range(JOBS)])
    settled: Counter[str] = Counter()
    troubling = asyncio.ensure_future(trouble())
    try:
        await asyncio.wait_for(asyncio.gather(*(Crew(queue, settled).work() for queue in queues)), 60)
    finally:
        troubling.cancel()
        await asyncio.gather(troubling, return_exceptions=True)
    for queue in queues:
        await queue.close()
    await all_settled_once(url, settled)


async def test_connections_that_are_terminated_over_and_over(own_server: PostgresServer) -> None:
    ended = 0

    async def terminate() -> None:
        nonlocal ended
        connection = await asyncpg.connect(own_server.url)
        try:
            # Bounded: on a slow machine nothing would get done in between. On a fast one, few looks find a call.
            for _ in range(600):
                found = await connection.fetchval(
                    "select count(pg_terminate_backend(pid)) from (select pid from pg_stat_activity "
                    "where backend_type = 'client backend' and pid <> pg_backend_pid() and state = 'active' "
                    "order by random() limit 1) victim"
                )
                ended += found
                if ended == 60:
                    break
                await asyncio.sleep(0.02 if found else 0.002)
        finally:
            connection.terminate()

    await work_while(f"{own_server.url}?schema=q", terminate)
    assert ended > 5


async def test_a_server_that_crashes_in_the_middle(own_server: PostgresServer) -> None:
    crashed = asyncio.Event()

    async def crash() -> None:
        for _ in range(2):
            await asyncio.sleep(0.1)
            await asyncio.to_thread(own_server.restart, "immediate")
            crashed.set()

    await work_while(f"{own_server.url}?schema=q", crash)
    assert crashed.is_set()


async def test_an_outage_is_told_after_a_bounded_time_and_forgotten_when_it_is_over(
    own_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "RECONNECT_TIMEOUT", 0.2)
    queue = await PostgresQueue.open(f"{own_server.url}?schema=q", SystemClock())
    await queue.submit([new_job("page", {"n": 1})])
    own_server.stop("immediate")
    for call in (queue.stats, queue.reap, lambda: queue.submit([new_job("page", {"n": 2})])):
        with pytest.raises(QueueUnavailableError):
            await call()
    own_server.start()
    monkeypatch.setattr(connections, "RECONNECT_TIMEOUT", 20.0)
    assert (await queue.submit([new_job("page", {"n": 2})])).new == 1
    assert totals(await queue.stats()).pending == 2
    await queue.close()


async def test_a_short_outage_is_not_noticed_by_calls_that_had_not_begun(own_server: PostgresServer) -> None:
    queue = await PostgresQueue.open(f"{own_server.url}?schema=q", SystemClock())
    await asyncio.to_thread(own_server.stop, "immediate")
    call = asyncio.ensure_future(queue.submit([new_job("page", {"n": 1})]))
    await asyncio.to_thread(own_server.start)
    assert (await call).new == 1
    await queue.close()


async def test_a_waiter_whose_connection_dies_is_still_woken(own_server: PostgresServer) -> None:
    url = f"{own_server.url}?schema=q"
    queue = await PostgresQueue.open(url, SystemClock())
    other = await PostgresQueue.open(url, SystemClock())
    waiting = asyncio.ensure_future(queue.wait(Want(worker=WorkerId.new()), timedelta(seconds=60)))
    listeners = f"select pid from pg_stat_activity where query = 'LISTEN \"{locate(url).channel}\"' and state = 'idle'"
    admin = await asyncpg.connect(own_server.url)
    first = await until(admin, listeners, bool)
    await admin.execute("select pg_terminate_backend($1)", first[0]["pid"])
    await until(admin, listeners, lambda rows: rows not in ([], first))
    await other.submit([new_job("page", {"n": 1})])
    assert await waiting
    for opened in (queue, other, admin):
        await opened.close()


async def test_a_cancelled_call_leaves_no_broken_connection_behind(queue: PostgresQueue, url: str) -> None:
    blocker = await asyncpg.connect(locate(url).dsn)
    async with blocker.transaction():
        await blocker.execute(f"lock table {locate(url).quoted_schema}.job")
        call = asyncio.ensure_future(queue.submit([new_job("page", {"n": 1})]))
        await until(blocker, "select pid from pg_locks where not granted", bool)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
    await blocker.close()
    assert (await queue.submit([new_job("page", {"n": 2})])).new == 1


@pytest.mark.parametrize("limit", ["the server's", "our own"])
async def test_a_call_that_takes_longer_than_its_limit_is_told_apart_from_a_lost_connection(
    url: str, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    if limit == "our own":
        monkeypatch.setattr(connections, "CALL_TIMEOUT", 0.5)
    else:
        monkeypatch.setattr(connections, "_SESSION", connections._SESSION.replace("'30s'", "'500ms'"))
    queue = await PostgresQueue.open(url, SystemClock())
    await queue.submit([new_job("page", {"n": 1})])
    (lease,) = await queue.claim(Want(worker=WorkerId.new(), lease=LEASE))
    blocker = await asyncpg.connect(locate(url).dsn)
    async with blocker.transaction():
        await blocker.execute(f"lock table {locate(url).quoted_schema}.done")
        with pytest.raises(QueueTimeoutError, match="took too long"):
            await queue.settle([Settlement(lease, Completed())])
    await blocker.close()
    # At our own limit, the server may have gone on and written it.
    assert any([*await queue.settle([Settlement(lease, Completed())]), limit == "our own"])
    assert totals(await queue.stats()).completed == 1
    await queue.close()
