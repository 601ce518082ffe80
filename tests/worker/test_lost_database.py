"""A `longshore work` process on PostgreSQL whose server goes away and comes back."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.services.postgres import PostgresServer
from tests.waiting import wait_until

from longshore.job import new_job
from longshore.media import open_queue
from longshore.queue import Count, totals

HANDLERS = """import asyncio

from longshore import handler

@handler("page", timeout=30)
async def page(job, kit):
    await asyncio.sleep(0.05)
    return {"n": job.payload["n"], "attempt": job.attempt}
"""


class Fleet:
    """Worker processes that are started again by hand, as a person would."""

    def __init__(self, folder: Path, server: PostgresServer) -> None:
        self.folder, self.server = folder, server
        (folder / "pages.py").write_text(HANDLERS)
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        command = [sys.executable, "-m", "longshore", "work", "pages.py", "--run", "r", "--until-done"]
        number = len(self.processes)
        settings = {"LONGSHORE_QUEUE": self.server.url, "LONGSHORE_LEASE_SECONDS": "3", "LONGSHORE_BATCH_SIZE": "10"}
        with (self.folder / f"{number}.log").open("wb") as log:
            self.processes.append(
                subprocess.Popen(
                    command,
                    cwd=self.folder,
                    env=os.environ | settings,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                )
            )

    def live(self) -> list[subprocess.Popen[bytes]]:
        return [process for process in self.processes if process.poll() is None]

    def count(self) -> Count:
        async def read() -> Count:
            queue = await open_queue(self.server.url)
            try:
                return totals(await queue.stats("r"))
            finally:
                await queue.close()

        return asyncio.run(read())

    def logs(self) -> str:
        return "\n".join(path.read_text() for path in sorted(self.folder.glob("*.log")))


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    with PostgresServer() as running:
        yield running


@pytest.fixture
def fleet(tmp_path: Path, server: PostgresServer) -> Iterator[Fleet]:
    fleet = Fleet(tmp_path, server)
    yield fleet
    for process in fleet.live():
        process.kill()
        process.wait()


def test_a_worker_that_loses_the_database_waits_and_goes_on(fleet: Fleet, long: bool) -> None:
    """A minute with --long; otherwise until the worker has said that it waits."""
    asyncio.run(_submit(fleet.server.url, 500))
    fleet.start()
    wait_until(lambda: fleet.count().completed > 50)
    fleet.server.stop("immediate")
    wait_until(lambda: "cannot be reached" in fleet.logs())
    if long:
        threading.Event().wait(60)
    assert fleet.live(), fleet.logs()
    fleet.server.start()
    wait_until(lambda: not fleet.live())
    assert fleet.processes[0].returncode == 0, fleet.logs()
    count = fleet.count()
    assert (count.completed, count.total) == (500, 500)


async def _submit(url: str, jobs: int) -> None:
    queue = await open_queue(url)
    await queue.submit([new_job("page", {"n": n}, run="r") for n in range(jobs)])
    await queue.close()
