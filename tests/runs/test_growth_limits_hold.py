"""The number of jobs a run may have holds, exactly, for worker processes that add to it at once and are killed."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.waiting import wait_until

from longshore.job import new_job
from longshore.media import open_queue
from longshore.queue import totals
from longshore.runs.control.growth_limits import GrowthLimits, left_out, set_limits

CRAWL = """
from longshore import Result, handler, new_job


@handler("page")
async def page(job, kit):
    number = job.payload["number"]
    return Result(None, [new_job("page", {"number": 7 * number + each}) for each in range(1, 8)])
"""


async def filled(url: str) -> None:
    queue = await open_queue(url)
    await set_limits(queue, "r", GrowthLimits(max_jobs=300))
    await queue.submit([new_job("page", {"number": number}, run="r") for number in range(4)])
    await queue.close()


async def size(url: str) -> int:
    queue = await open_queue(url)
    try:
        return totals(await queue.stats("r")).total
    finally:
        await queue.close()


async def too_many(url: str) -> int:
    queue = await open_queue(url)
    try:
        return (await left_out(queue, "r")).too_many
    finally:
        await queue.close()


@pytest.mark.parametrize("scheme", ["sqlite", "dir", "git"])
def test_worker_processes_that_add_at_once_keep_to_the_number(tmp_path: Path, scheme: str) -> None:
    if scheme == "git":
        subprocess.run(["git", "init", "-q", "--bare", str(tmp_path / "repo.git")], check=True)
    named = {"sqlite": "sqlite:///{}/q.db", "dir": "dir://{}/q", "git": "git+file://{}/repo.git"}[scheme]
    url = named.format(tmp_path)
    (tmp_path / "crawl.py").write_text(CRAWL)
    asyncio.run(filled(url))
    command = [sys.executable, "-m", "longshore", "work", "crawl.py", "--run", "r", "--until-done"]
    environment = os.environ | {
        "LONGSHORE_QUEUE": url,
        "LONGSHORE_LEASE_SECONDS": "5",
        "LONGSHORE_CACHE_DIR": str(tmp_path / "cache"),
    }
    with (tmp_path / "log").open("wb") as log:
        workers = [
            subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
            for _ in range(4)
        ]
        try:
            wait_until(lambda: asyncio.run(size(url)) > 4)
            workers[0].kill()
            codes = [worker.wait(timeout=300) for worker in workers]
        finally:
            for worker in workers:
                worker.kill()
    assert codes[1:] == [0, 0, 0], (tmp_path / "log").read_text()
    assert asyncio.run(size(url)) == 300
    assert asyncio.run(too_many(url))
