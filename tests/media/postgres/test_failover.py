"""A failover: for a while every connection ends at a server that accepts no writes, then at the new primary (A11)."""

from __future__ import annotations

import asyncio
import io
from datetime import timedelta
from pathlib import Path

import asyncpg
import pytest
from tests.services.postgres import PostgresServer
from tests.waiting import wait_until

from longshore.clock import SystemClock
from longshore.job import State, new_job
from longshore.lease import WorkerId
from longshore.media.postgres import PostgresQueue
from longshore.observe.logs import configure
from longshore.queue import Selection
from longshore.worker import RunFinished, WorkerConfig, work

HANDLERS = """
import asyncio
from longshore import handler

@handler("page")
async def page(job, kit):
    kit.emit({"n": job.payload["n"]})
    await asyncio.sleep(0.01)
    return job.payload["n"]
"""


async def test_a_worker_outlives_a_failover_and_writes_every_outcome(
    server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    said = io.StringIO()
    configure(format="text", stream=said)
    admin = await asyncpg.connect(server.url)
    await admin.execute("create database failover")

    async def accept_writes(allowed: bool) -> None:
        await admin.execute(f"alter database failover set default_transaction_read_only = {'off' if allowed else 'on'}")
        await admin.execute("select pg_terminate_backend(pid) from pg_stat_activity where datname = 'failover'")

    url = server.url_of("failover")
    queue = await PostgresQueue.open(url, SystemClock())
    await queue.submit([new_job("page", {"n": n}) for n in range(300)])
    await queue.close()
    file = tmp_path / "pages.py"
    file.write_text(HANDLERS)
    config = WorkerConfig(
        queue_url=url,
        handler_file=file,
        worker=WorkerId.new("w"),
        lease=timedelta(seconds=60),
        concurrency=4,
        batch_size=10,
        stop=(RunFinished(),),
        keep_awake=False,
    )
    working = asyncio.create_task(work(config))
    await asyncio.to_thread(wait_until, lambda: "Completed work" in said.getvalue())
    await accept_writes(False)
    await asyncio.to_thread(wait_until, lambda: "accepts no writes" in said.getvalue() or working.done())
    await accept_writes(True)
    report = await working
    assert (report.completed, report.exit_code) == (300, 0), said.getvalue()
    queue = await PostgresQueue.open(url, SystemClock())
    jobs = await queue.jobs(Selection())
    assert {(job.state, job.attempts) for job in jobs} == {(State.COMPLETED, 1)}
    await queue.close()
    await admin.execute("drop database failover with (force)")
    await admin.close()
