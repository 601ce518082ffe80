"""Idle long polls: how much processor time they cost the server, and how soon a submitted job starts."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import NamedTuple

import aiohttp
import psutil

from longshore.job import new_job
from longshore.media.http.connection import ApiConnection
from longshore.media.http.queue import HttpQueue

POLLS = 200


class Idle(NamedTuple):
    """The cost of idle polls, and the delay of jobs that are submitted one by one."""

    core: float
    """The share of one core that the server used while nothing happened."""
    median_ms: float
    p99_ms: float
    """From the begin of the submission to the answer that brings the job to a worker."""


def measure(url: str, key: str, server: int, *, seconds: float, jobs: int) -> Idle:
    """Let 200 polls wait for `seconds`, then submit `jobs`, one every 50 ms."""
    return asyncio.run(_measure(url, key, server, seconds, jobs))


async def _measure(url: str, key: str, server: int, seconds: float, jobs: int) -> Idle:
    started: dict[str, asyncio.Future[float]] = {}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0), headers={"Authorization": f"Bearer {key}"}
    ) as session:
        polls = [asyncio.create_task(_poll(session, url, number, started)) for number in range(POLLS)]
        queue = await HttpQueue.open(ApiConnection(url, key))
        await asyncio.sleep(3.0)
        process = psutil.Process(server)
        before, began = sum(process.cpu_times()[:2]), time.monotonic()
        await asyncio.sleep(seconds)
        core = (sum(process.cpu_times()[:2]) - before) / (time.monotonic() - began)
        delays = []
        for number in range(jobs):
            started[str(number)] = asyncio.get_running_loop().create_future()
            submitted = time.monotonic()
            await queue.submit([new_job("page", {"n": number}, run="bench", key=str(number))])
            delays.append(1000 * (await started[str(number)] - submitted))
            await asyncio.sleep(0.05)
        for poll in polls:
            poll.cancel()
        await asyncio.gather(*polls, return_exceptions=True)
        await queue.close()
    return Idle(core, statistics.median(delays), statistics.quantiles(delays, n=100)[98])


async def _poll(
    session: aiohttp.ClientSession, url: str, number: int, started: dict[str, asyncio.Future[float]]
) -> None:
    """Claim, and settle what comes, as a worker in another language does: one call a turn."""
    claim = {"worker": {"label": f"w{number}", "incarnation": f"w{number}/1"}, "wait_seconds": 25}
    settlements: list[dict[str, object]] = []
    while True:
        body = {"settlements": settlements, "claim": claim}
        async with session.post(f"{url}/v1/settlements", json=body) as answer:
            found = (await answer.json())["jobs"]
        for each in found:
            started[each["job"]["key"]].set_result(time.monotonic())
        settlements = [{"lease": each["lease"], "outcome": {"type": "completed"}} for each in found]
