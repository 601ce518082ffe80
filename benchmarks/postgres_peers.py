"""Peers on PostgreSQL, each as its manual says to use it for many small jobs: two processes, a no-op handler."""

from __future__ import annotations

import asyncio
import importlib.util
import json
from datetime import timedelta

import asyncpg

from benchmarks.measure import PAYLOAD, rate

PEERS = {"pgqueuer": 4, "procrastinate": 1}
"""name -> how many times the usual number of jobs, so that the fast ones are measured for long enough."""


def installed() -> list[str]:
    """The peers that are there to be measured."""
    return [name for name in PEERS if importlib.util.find_spec(name)]


def drained(name: str, url: str, jobs: int) -> float:
    """Jobs a second that two processes of this peer work off."""
    jobs *= PEERS[name]
    asyncio.run(_fill_pgqueuer(url, jobs) if name == "pgqueuer" else _fill_procrastinate(url, jobs))
    # Each process knows only that the queue is empty; together they have done all that was there.
    return rate(drain, name, url, jobs // 2)


def drain(name: str, url: str, share: int) -> int:
    """Work until the queue is empty."""
    asyncio.run(_drain_pgqueuer(url) if name == "pgqueuer" else _drain_procrastinate(url))
    return share


async def _fill_pgqueuer(url: str, jobs: int) -> None:
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    if await queries.schema_is_installed():
        await queries.uninstall()
    await queries.install()
    for first in range(0, jobs, 1000):
        payloads: list[bytes | None] = [json.dumps({**PAYLOAD, "n": n}).encode() for n in range(first, first + 1000)]
        await queries.enqueue(["page"] * 1000, payloads, [0] * 1000)
    await connection.close()


async def _drain_pgqueuer(url: str) -> None:
    from pgqueuer import Job, PgQueuer
    from pgqueuer.types import QueueExecutionMode

    connection = await asyncpg.connect(url)
    worker = PgQueuer.from_asyncpg_connection(connection)

    @worker.entrypoint("page")
    async def page(job: Job) -> None:
        del job

    await worker.qm.run(batch_size=100, mode=QueueExecutionMode.drain, dequeue_timeout=timedelta(seconds=1))
    await connection.close()


async def _fill_procrastinate(url: str, jobs: int) -> None:
    app, task = _procrastinate(url)
    async with app.open_async():
        connection = await asyncpg.connect(url)
        await connection.execute(
            "do $$ declare n text; begin "
            "for n in select format('drop table if exists %I cascade', relname) from pg_class "
            "where relname like 'procrastinate%' and relkind = 'r' loop execute n; end loop; "
            "for n in select format('drop type if exists %I cascade', typname) from pg_type "
            "where typname like 'procrastinate%' loop execute n; end loop; "
            "for n in select format('drop function if exists %s cascade', oid::regprocedure) from pg_proc "
            "where proname like 'procrastinate%' loop execute n; end loop; end $$"
        )
        await connection.close()
        await app.schema_manager.apply_schema_async()
        await task.batch_defer_async(*({"payload": {**PAYLOAD, "n": n}} for n in range(jobs)))


async def _drain_procrastinate(url: str) -> None:
    app, _ = _procrastinate(url)
    async with app.open_async():
        await app.run_worker_async(wait=False, concurrency=20, install_signal_handlers=False, listen_notify=False)


def _procrastinate(url: str):  # type: ignore[no-untyped-def]
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="page")
    async def page(payload: dict[str, object]) -> None:
        del payload

    return app, page
