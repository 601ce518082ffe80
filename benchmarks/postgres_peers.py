"""Peers in Python on PostgreSQL, each as its manual says to use it for many small jobs, with a no-op handler.

Both note in the database when a job ended, which is what they are measured by.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import asyncpg

from benchmarks.measure import PAYLOAD, Settled, meet, together

PGQUEUER, PROCRASTINATE = "pgqueuer", "procrastinate"
ENQUEUE_BATCH = 1000
_SETTLED = {
    PGQUEUER: "select extract(epoch from created)::float8, count(*) from pgqueuer_log"
    " where status = 'successful' group by 1",
    PROCRASTINATE: "select extract(epoch from at)::float8, count(*) from procrastinate_events"
    " where type = 'succeeded' group by 1",
}


def installed(name: str) -> bool:
    """Whether the peer is there to be measured."""
    return importlib.util.find_spec(name) is not None


def missing(name: str) -> str:
    """What the table says where it is not."""
    return f"not measured: `pip install {name}`"


def fill(name: str, url: str, jobs: int) -> None:
    """Make its tables and add jobs."""
    asyncio.run(_fill_pgqueuer(url, jobs) if name == PGQUEUER else _fill_procrastinate(url, jobs))


def drained(name: str, url: str, at_once: int) -> list[Settled]:
    """What two processes settled by the time nothing was left; they begin together and count as one.

    `at_once` is pgqueuer's batch and procrastinate's concurrency.
    """
    together(drain, name, url, at_once)
    return asyncio.run(_settled(name, url))


def drain(name: str, url: str, at_once: int) -> None:
    """Work until the queue is empty."""
    asyncio.run(_drain_pgqueuer(url, at_once) if name == PGQUEUER else _drain_procrastinate(url, at_once))


async def _settled(name: str, url: str) -> list[Settled]:
    connection = await asyncpg.connect(url)
    rows = await connection.fetch(_SETTLED[name])
    await connection.close()
    return [Settled(name, *row) for row in rows]


async def install_pgqueuer(url: str) -> None:
    """Make pgqueuer's tables."""
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    connection = await asyncpg.connect(url)
    await Queries(AsyncpgDriver(connection)).install()
    await connection.close()


async def _fill_pgqueuer(url: str, jobs: int) -> None:
    from pgqueuer.db import AsyncpgDriver
    from pgqueuer.queries import Queries

    await install_pgqueuer(url)
    connection = await asyncpg.connect(url)
    queries = Queries(AsyncpgDriver(connection))
    for first in range(0, jobs, ENQUEUE_BATCH):
        numbers = range(first, min(first + ENQUEUE_BATCH, jobs))
        payloads: list[bytes | None] = [json.dumps({**PAYLOAD, "n": n}).encode() for n in numbers]
        await queries.enqueue(["page"] * len(payloads), payloads, [0] * len(payloads))
    await connection.close()


def _pgqueuer(connection: asyncpg.Connection, seen: Callable[[bytes], None]):  # type: ignore[no-untyped-def]
    """A worker that shows each payload as its job starts."""
    from pgqueuer import Job, PgQueuer

    worker = PgQueuer.from_asyncpg_connection(connection)

    @worker.entrypoint("page")
    async def page(job: Job) -> None:
        seen(job.payload or b"")

    return worker


async def _drain_pgqueuer(url: str, batch: int) -> None:
    from pgqueuer.types import QueueExecutionMode

    connection = await asyncpg.connect(url)
    worker = _pgqueuer(connection, lambda _: None)
    meet()
    # Its log is what it is measured by: folding that into statistics at the same time would be in its way.
    await worker.qm.run(
        batch_size=batch,
        mode=QueueExecutionMode.drain,
        dequeue_timeout=timedelta(seconds=1),
        log_aggregation_interval=timedelta(0),
    )
    await connection.close()


async def _fill_procrastinate(url: str, jobs: int) -> None:
    app, task = _procrastinate(url)
    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        await task.batch_defer_async(*({"payload": {**PAYLOAD, "n": n}} for n in range(jobs)))


async def _drain_procrastinate(url: str, concurrency: int) -> None:
    app, _ = _procrastinate(url)
    async with app.open_async():
        meet()
        await app.run_worker_async(
            wait=False, concurrency=concurrency, install_signal_handlers=False, listen_notify=False
        )


def _procrastinate(url: str):  # type: ignore[no-untyped-def]
    import procrastinate

    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=url))

    @app.task(name="page")
    async def page(payload: dict[str, object]) -> None:
        del payload

    return app, page


def idle_pgqueuer(url: str, file: Path) -> None:
    """A worker of pgqueuer that writes to a file how long each job had waited to start."""
    from benchmarks.postgres_latency import note_wait

    def seen(payload: bytes) -> None:
        note_wait(file, json.loads(payload)["at"])

    asyncio.run(_wait_with_pgqueuer(url, seen))


async def _wait_with_pgqueuer(url: str, seen: Callable[[bytes], None]) -> None:
    await _pgqueuer(await asyncpg.connect(url), seen).qm.run()
