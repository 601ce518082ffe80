"""`longshore fleet` on PostgreSQL: 51 partitions, workers and supervisor killed with -9 in the middle (B10, B11)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path

import psutil
import pytest
from tests.services.postgres import PostgresServer
from tests.waiting import wait_until

from longshore.fleet.partitions.us_states import US_STATES
from longshore.job import Job, NewJob, new_job
from longshore.media import open_queue
from longshore.queue import Count, Selection, each_job, totals

MARK = "LONGSHORE_TEST_MARK"
HANDLERS = """import asyncio
from longshore import handler
from longshore.fleet.partitions.us_states import US_STATES

PARTITIONS = US_STATES

@handler("target", timeout=30, retries=5)
async def target(job):
    await asyncio.sleep(job.payload["seconds"])
    return {"state": job.partition}
"""
_numbers = count()


class Field:
    """A folder with a queue of its own in PostgreSQL, fleets that work on it, and what can be done to them."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url, self.mark = folder, url, str(folder)
        self.log = folder / "fleet.out"
        (folder / "targets.py").write_text(HANDLERS)

    def submit(self, jobs: Sequence[NewJob]) -> None:
        async def put() -> None:
            queue = await open_queue(self.url)
            await queue.submit(jobs)
            await queue.close()

        asyncio.run(put())

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        environment = os.environ | {MARK: self.mark, "LONGSHORE_QUEUE": self.url, "LONGSHORE_POLL_INTERVAL": "1"}
        command = [sys.executable, "-m", "longshore", "fleet", "targets.py", "--run", "r", "--until-done", "--yes"]
        with self.log.open("ab") as log:
            return subprocess.Popen(
                [*command, "--stagger", "0", "--concurrency", "1", *arguments],
                cwd=self.folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def run(self, *arguments: str) -> None:
        assert self.start(*arguments).wait(timeout=300) == 0, self.log.read_text()
        assert not self.left_behind()

    def workers(self) -> list[psutil.Process]:
        return [process for process in self.left_behind() if "work" in _command(process)]

    def left_behind(self) -> list[psutil.Process]:
        """Every process that carries this folder's mark, whoever its parent is now."""
        return [process for process in psutil.process_iter() if _environment(process).get(MARK) == self.mark]

    def count(self) -> Count:
        async def read() -> Count:
            queue = await open_queue(self.url)
            try:
                return totals(await queue.stats("r"))
            finally:
                await queue.close()

        return asyncio.run(read())

    def jobs(self) -> list[Job]:
        async def read() -> list[Job]:
            queue = await open_queue(self.url)
            try:
                return [job async for job in each_job(queue, Selection(run="r"))]
            finally:
                await queue.close()

        return asyncio.run(read())


@pytest.fixture
def field(tmp_path: Path, server: PostgresServer) -> Iterator[Field]:
    field = Field(tmp_path, f"{server.url}?schema=fleet_{next(_numbers)}")
    yield field
    for process in field.left_behind():
        _kill(process)


def _kill(process: psutil.Process) -> None:
    try:
        process.send_signal(signal.SIGKILL)
    except psutil.NoSuchProcess:
        return


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return []


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.status() != psutil.STATUS_ZOMBIE else {}
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return {}


def targets(each: int, seconds: float, partitions: Sequence[str] = tuple(US_STATES)) -> list[NewJob]:
    return [
        new_job("target", {"number": number, "seconds": seconds, "state": state}, run="r", partition=state)
        for state in partitions
        for number in range(each)
    ]


def test_killed_workers_and_a_killed_supervisor_lose_nothing_and_leave_nobody(field: Field, long: bool) -> None:
    jobs = targets(each=50 if long else 5, seconds=0.2)
    field.submit(jobs)
    arguments = ("--workers", "10", "--lease-seconds", "3")
    first = field.start(*arguments)
    for number in range(1, 4):
        wait_until(lambda number=number: field.count().completed >= len(jobs) * number // 10)  # type: ignore[misc]
        _kill(random.choice(field.workers()))
    wait_until(lambda: field.count().completed >= len(jobs) * 4 // 10)
    first.kill()
    first.wait()
    wait_until(lambda: not field.left_behind())
    before = field.count()
    assert before.total == len(jobs)
    assert 0 < before.completed < len(jobs)

    field.run(*arguments)
    after = field.count()
    assert (after.completed, after.total) == (len(jobs), len(jobs))
    settled = Counter((job.partition, job.payload["number"]) for job in field.jobs() if job.result == _result(job))
    assert set(settled.values()) == {1}
    assert len(settled) == len(jobs)


def _result(job: Job) -> dict[str, str]:
    return {"state": job.partition}


@pytest.mark.parametrize("workers", [3, 7, 60])
def test_every_partition_has_a_worker_however_many_there_are(field: Field, workers: int, long: bool) -> None:
    if workers > 10 and not long:
        pytest.skip("sixty processes: --long")
    field.submit(targets(each=1, seconds=0.0))
    # Strict: a partition without a worker would never be finished.
    field.run("--workers", str(workers), "--strict-partitions", "--lease-seconds", "30")
    assert field.count().completed == len(US_STATES)


def test_idle_workers_help_with_the_only_partition_that_has_work(field: Field, long: bool) -> None:
    jobs = targets(each=120 if long else 20, seconds=0.5, partitions=["TX"])
    field.submit(jobs)
    field.run("--workers", "10" if long else "4")
    done = field.jobs()
    begun = min((job.settled_at or 0.0) - (job.seconds or 0.0) for job in done)
    took = max(job.settled_at or 0.0 for job in done) - begun
    alone = sum(job.seconds or 0.0 for job in done)
    print(f"\n{len(done)} jobs of {alone:.1f} s in all took {took:.1f} s: {took / alone:.0%}")
    assert len({job.worker for job in done}) > 1


def test_a_strict_partition_is_touched_by_one_worker_alone(field: Field, long: bool) -> None:
    field.submit(targets(each=40 if long else 10, seconds=0.2, partitions=["TX"]))
    field.run("--workers", "10" if long else "4", "--strict-partitions")
    assert len({job.worker for job in field.jobs()}) == 1
