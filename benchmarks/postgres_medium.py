"""The PostgreSQL medium alone: the whole contract, without workers or handlers."""

from __future__ import annotations

import asyncio
import time
from datetime import timedelta
from hashlib import sha256
from typing import cast

import asyncpg

from benchmarks.measure import PAYLOAD
from longshore.clock import SystemClock
from longshore.job import NewJob, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.postgres import PostgresQueue
from longshore.media.postgres.location import locate
from longshore.outcome import Completed, Settlement

SUBMIT_BATCH = 5000


def clear(url: str) -> None:
    """Remove the queue."""
    asyncio.run(_run(url, f"set client_min_messages = error; drop schema if exists {_schema(url)} cascade; checkpoint"))


def submit(url: str, jobs: int, *, partitions: int = 1, first: int = 0) -> float:
    """Add jobs, batch by batch. Jobs a second, without the time that it takes to make them up."""
    return asyncio.run(_submit(url, jobs, partitions, first))


async def _submit(url: str, jobs: int, partitions: int, first: int) -> float:
    queue = await PostgresQueue.open(url, SystemClock())
    seconds = 0.0
    for start in range(first, first + jobs, SUBMIT_BATCH):
        batch = [_job(n, partitions) for n in range(start, min(start + SUBMIT_BATCH, first + jobs))]
        begin = time.monotonic()
        await queue.submit(batch)
        seconds += time.monotonic() - begin
    await queue.close()
    return jobs / seconds


def _job(number: int, partitions: int) -> NewJob:
    return new_job(
        "page",
        {**PAYLOAD, "n": number},
        run="bench",
        key=sha256(b"%d" % number).hexdigest(),
        partition=f"{number * 7919 % partitions}" if partitions > 1 else "",
    )


def finished(url: str, jobs: int) -> None:
    """Put finished jobs into the tables, as if they had been worked off."""
    schema = _schema(url)
    statement = f"""
      set search_path = {schema};
      insert into job (family, lane, priority, max_attempts, digest, key, host, payload)
        select 1, 1, 0, 4, substring(sha256(convert_to('old' || n, 'UTF8')) for 16), 'old' || n, 'h', '{{"n": 1}}'
        from generate_series(1, {jobs}) n;
      insert into done (job, state, worker, result)
        select id, 'completed', 'w', '{{"ok": true}}' from job where key like 'old%';
      insert into tally values ('{{1}}', '{{0}}', '{{{jobs}}}', '{{0}}', '{{0}}');
    """
    asyncio.run(_run(url, statement))


def settle_down(url: str) -> None:
    """Do what autovacuum would have done by now, and write out what was filled in."""
    asyncio.run(_run(url, "checkpoint"))
    for table in ("job", "ready", "done"):
        asyncio.run(_run(url, f"vacuum analyze {_schema(url)}.{table}"))


def drain(url: str, batch: int, most: int = 1 << 62, partitions: tuple[str, ...] | None = None) -> int:
    """Claim the next batch while the last one is settled, as a worker does, until nothing is left or enough is done."""
    return asyncio.run(_drain(url, batch, most, partitions))


async def _drain(url: str, batch: int, most: int, partitions: tuple[str, ...] | None) -> int:
    queue = await PostgresQueue.open(url, SystemClock())
    wanted = None if partitions is None else frozenset(partitions)
    want = Want(worker=WorkerId.new(), limit=batch, kinds=frozenset({"page"}), partitions=wanted)
    done = 0
    leases = await queue.claim(want)
    while leases:
        settlements = [Settlement(lease, Completed({"ok": True}), 0.001) for lease in leases]
        if done + len(leases) >= most:
            accepted, leases = await queue.settle(settlements), []
        else:
            answers = await asyncio.gather(queue.settle(settlements), queue.claim(want))
            accepted, leases = cast("tuple[list[bool], list[Lease]]", tuple(answers))
        done += sum(accepted)
    await queue.close()
    return done


def drain_for(url: str, batch: int, seconds: float, every: float) -> list[int]:
    """Work for so long and say how many were done in each stretch of time."""
    return asyncio.run(_drain_for(url, batch, seconds, every))


async def _drain_for(url: str, batch: int, seconds: float, every: float) -> list[int]:
    queue = await PostgresQueue.open(url, SystemClock())
    want = Want(worker=WorkerId.new(), limit=batch, kinds=frozenset({"page"}))
    stretches = [0] * round(seconds / every)
    begin = time.monotonic()
    leases = await queue.claim(want)
    while leases and (at := time.monotonic() - begin) < seconds:
        settlements = [Settlement(lease, Completed({"ok": True}), 0.001) for lease in leases]
        answers = await asyncio.gather(queue.settle(settlements), queue.claim(want))
        accepted, leases = cast("tuple[list[bool], list[Lease]]", tuple(answers))
        stretches[min(int(at / every), len(stretches) - 1)] += sum(accepted)
    await queue.close()
    return stretches


def latency(url: str, times: int = 200) -> list[float]:
    """Seconds from a submission in one queue to the lease in another whose worker waits."""
    return asyncio.run(_latency(url, times))


async def _latency(url: str, times: int) -> list[float]:
    queue, other = await PostgresQueue.open(url, SystemClock()), await PostgresQueue.open(url, SystemClock())
    want = Want(worker=WorkerId.new(), limit=10)
    waits = []
    for number in range(times + 10):
        waiting = asyncio.ensure_future(queue.wait(want, timedelta(seconds=60)))
        await asyncio.sleep(0.03)  # past the pause between two notifications, as on an idle fleet
        begin = time.monotonic()
        await other.submit([new_job("page", {"n": number})])
        await waiting
        leases = await queue.claim(want)
        waits.append(time.monotonic() - begin)
        await queue.settle([Settlement(lease, Completed()) for lease in leases])
    await queue.close()
    await other.close()
    return sorted(waits[10:])


def _schema(url: str) -> str:
    return locate(url).quoted_schema


async def _run(url: str, statements: str) -> None:
    connection = await asyncpg.connect(locate(url).dsn)
    try:
        await connection.execute(statements)
    finally:
        await connection.close()
