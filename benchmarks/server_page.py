"""The overview of a server: how long it takes with a million jobs and with a thousand runs, and what viewers cost.

    python -m benchmarks.server_page sqlite|postgres [JOBS] [RUNS]

The time is that of a request to a server process, without and with a snapshot that others are looking at. Viewers are
measured by the processor time of the server: none, and a hundred on the same page while jobs are completed.
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

import aiohttp
import psutil
from tests.server.page.page_server import PageServer
from tests.services.postgres import PostgresServer

from longshore.job import NewJob
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue

BATCH = 5000
LEASE = timedelta(minutes=10)
SECONDS = 10.0


@asynccontextmanager
async def filled(url: str, jobs: int, runs: int) -> AsyncIterator[Queue]:
    queue = await open_queue(url)
    for start in range(0, jobs, BATCH):
        await queue.submit([_job(n, n * runs // jobs) for n in range(start, min(start + BATCH, jobs))])
    worker = WorkerId("w", "w")
    leases = await queue.claim(Want(worker=worker, limit=2000, lease=LEASE))
    await queue.settle([Settlement(lease, Completed(), 0.1) for lease in leases])
    try:
        yield queue
    finally:
        await queue.close()


def _job(n: int, run: int) -> NewJob:
    host = f"h{n % 97}.test"
    payload = {"url": f"https://{host}/{n}"}
    return NewJob(run=f"run-{run:04}", kind="page", key=str(n), payload=payload, host=host)


async def measure(url: str, jobs: int, runs: int, folder: Path) -> None:
    async with filled(url, jobs, runs) as queue:
        server = await asyncio.to_thread(PageServer, folder, url)
        process = psutil.Process(server.pid)
        try:
            jar = aiohttp.CookieJar(unsafe=True)
            async with aiohttp.ClientSession(cookie_jar=jar, connector=aiohttp.TCPConnector(limit=0)) as session:
                await (await session.get(server.login)).read()
                first = await _get(session, server.url)
                cold = []
                for _ in range(5):
                    await asyncio.sleep(2.2)
                    cold.append(await _get(session, server.url))
                median = statistics.median(cold)
                print(f"{jobs:,} jobs, {runs:,} runs: first {first:.0f} ms, then {median:.0f} (worst {max(cold):.0f})")
                for viewers in (0, 1, 100):
                    used = await _cost(session, server.url, process, queue, viewers)
                    print(f"  {viewers} viewers: {used:.1f} % of a core", flush=True)
        finally:
            await asyncio.to_thread(server.stop)


async def _get(session: aiohttp.ClientSession, url: str) -> float:
    began = time.perf_counter()
    async with session.get(f"{url}/", headers={"Accept": "text/html"}) as answer:
        text = await answer.text()
    took = 1000 * (time.perf_counter() - began)
    assert answer.status == 200 and "run-" in text
    return took


async def _cost(session: aiohttp.ClientSession, url: str, process: psutil.Process, queue: Queue, viewers: int) -> float:
    streams = [await session.get(f"{url}/live?page=overview", timeout=aiohttp.ClientTimeout()) for _ in range(viewers)]
    readers = [asyncio.create_task(_drain(stream)) for stream in streams]
    worker = WorkerId("w", "w")
    await asyncio.sleep(3)
    before, began = sum(process.cpu_times()[:2]), time.perf_counter()
    while time.perf_counter() - began < SECONDS:
        leases = await queue.claim(Want(worker=worker, limit=5, lease=LEASE))
        await queue.settle([Settlement(lease, Completed(), 0.1) for lease in leases])
        await asyncio.sleep(0.25)
    used = sum(process.cpu_times()[:2]) - before
    took = time.perf_counter() - began
    for reader in readers:
        reader.cancel()
    await asyncio.gather(*readers, return_exceptions=True)
    for stream in streams:
        stream.close()
    return 100 * used / took


async def _drain(stream: aiohttp.ClientResponse) -> None:
    async for _ in stream.content.iter_any():
        pass


def main(medium: str, jobs: int, runs: int) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if medium == "sqlite":
            asyncio.run(measure(f"sqlite:///{folder}/queue.db", jobs, runs, folder))
            return
        with PostgresServer() as postgres:
            asyncio.run(measure(postgres.url, jobs, runs, folder))


if __name__ == "__main__":
    medium, jobs, runs = [*sys.argv[1:], *("1000000", "1000")[len(sys.argv) - 2 :]]
    main(medium, int(jobs), int(runs))
