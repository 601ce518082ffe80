"""Through PgBouncer in transaction mode: three server connections, shared by everyone, in turns."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from datetime import timedelta

import pytest
from tests.services.needing import needed
from tests.services.pgbouncer import PgBouncer
from tests.services.postgres import PostgresServer

from longshore.clock import SystemClock
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.postgres import PostgresQueue, migrate
from longshore.outcome import Completed, Settlement
from longshore.queue import totals


@pytest.fixture
def bouncer(server: PostgresServer) -> Iterator[PgBouncer]:
    with needed():
        running = PgBouncer(server)
    with running:
        yield running


async def test_many_workers_share_few_connections(bouncer: PgBouncer) -> None:
    url = f"{bouncer.url}?schema=bounced"
    await migrate(url)
    queues = [await PostgresQueue.open(url, SystemClock()) for _ in range(8)]
    await asyncio.gather(*(q.submit([new_job("page", {"n": n}) for n in range(500)]) for q in queues))

    async def work(queue: PostgresQueue) -> int:
        want = Want(worker=WorkerId.new(), limit=20)
        settled = 0
        while leases := await queue.claim(want):
            answers, held, _ = await asyncio.gather(
                queue.settle([Settlement(lease, Completed({"n": lease.job.payload["n"]})) for lease in leases]),
                queue.renew(want.worker, want.lease),
                queue.stats(),
            )
            settled += sum(answers)
            assert {name.job_id for name in held} <= {lease.job.id for lease in leases}
        return settled

    assert sum(await asyncio.gather(*(work(queue) for queue in queues))) == 500
    assert totals(await queues[0].stats()).completed == 500
    for queue in queues:
        await queue.close()


async def test_who_cannot_listen_looks(bouncer: PgBouncer) -> None:
    url = f"{bouncer.url}?schema=looked"
    queue = await PostgresQueue.open(url, SystemClock())
    other = await PostgresQueue.open(url, SystemClock())
    want = Want(worker=WorkerId.new())
    assert not await queue.wait(want, timedelta(seconds=0.05))
    waiting = asyncio.ensure_future(queue.wait(want, timedelta(seconds=60)))
    await other.submit([new_job("page", {"n": 1})])
    assert await waiting
    await queue.close()
    await other.close()
