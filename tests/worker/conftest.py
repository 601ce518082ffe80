"""Workers to test: in this process on a queue in memory, and as real processes on a SQLite file."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from longshore.clock import ManualClock
from longshore.handlers.handler import Handler
from longshore.job import Job, NewJob, new_job
from longshore.lease import WorkerId
from longshore.media import open_queue
from longshore.media.memory import MemoryQueue
from longshore.queue import Queue, Selection
from longshore.worker import RunFinished, WorkerConfig, WorkerReport, work

DRIVER = """
import asyncio, json, sys
from datetime import timedelta
from pathlib import Path
from longshore.lease import WorkerId
from longshore.observe import configure
from longshore.worker import MaxWork, RunFinished, WorkerConfig, work

given = json.loads(sys.argv[1])
configure(format="json")
stop = [RunFinished()] if given.get("until_done", True) else []
config = WorkerConfig(
    queue_url=given["queue"], handler_file=Path(given["file"]), worker=WorkerId.new(given["label"]),
    lease=timedelta(seconds=given["lease"]), concurrency=given["concurrency"], stop=tuple(stop), keep_awake=False,
)
raise SystemExit(asyncio.run(work(config)).exit_code)
"""


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


Work = Callable[..., Awaitable[WorkerReport]]


@pytest.fixture
def run_worker(tmp_path: Path) -> Work:
    """Run a worker in this process on a queue in memory, until nothing is left to do."""

    async def run(queue: Queue, *handlers: Handler, clock: ManualClock | None = None, **changes: Any) -> WorkerReport:
        given: dict[str, Any] = {
            "queue_url": "memory://",
            "handler_file": tmp_path / "handlers.py",
            "worker": WorkerId.new("tester"),
            "concurrency": 4,
            "stop": (RunFinished(),),
            "keep_awake": False,
        }
        config = WorkerConfig(**(given | changes))
        return await work(config, clock=clock, handlers={h.kind: h for h in handlers} or None, queue=queue)

    return run


async def finish(
    task: asyncio.Task[WorkerReport], clock: ManualClock, *, step: float = 0.5, limit: float = 1e6
) -> WorkerReport:
    """Move the clock until the worker has ended."""
    while not task.done():
        assert clock.monotonic() < limit, "the worker does not end"
        for _ in range(20):
            await asyncio.sleep(0)
        clock.advance(step)
    return await task


@pytest.fixture
def advance() -> Callable[..., Awaitable[WorkerReport]]:
    return finish


@pytest.fixture
def some_jobs() -> Callable[..., list[NewJob]]:
    def make(kind: str, count: int = 1, **options: Any) -> list[NewJob]:
        return [new_job(kind, {"number": number}, **options) for number in range(count)]

    return make


@pytest.fixture
def memory() -> MemoryQueue:
    return MemoryQueue()


class Site:
    """A folder with a handler file and a SQLite queue, and the worker processes started on them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.file = folder / "handlers_under_test.py"
        self.url = f"sqlite:///{folder / 'queue.db'}"
        self.workers: list[subprocess.Popen[bytes]] = []
        self.logs: list[Path] = []

    def handlers(self, source: str) -> None:
        self.file.write_text("from longshore.handlers.handler import handler\n" + textwrap.dedent(source))

    def submit(self, *jobs: NewJob) -> None:
        async def go() -> None:
            queue = await open_queue(self.url)
            await queue.submit(jobs)
            await queue.close()

        asyncio.run(go())

    def jobs(self) -> list[Job]:
        async def go() -> list[Job]:
            queue = await open_queue(self.url)
            found = await queue.jobs(Selection())
            await queue.close()
            return found

        return asyncio.run(go())

    def start(self, **changes: Any) -> subprocess.Popen[bytes]:
        given = {"queue": self.url, "file": str(self.file), "label": "tester", "lease": 5.0, "concurrency": 2}
        log = self.folder / f"worker{len(self.workers)}.log"
        with log.open("wb") as stream:
            worker = subprocess.Popen(
                [sys.executable, "-c", DRIVER, json.dumps(given | changes)],
                stderr=stream,
                cwd=self.folder,
                start_new_session=True,
                env={**os.environ, "LONGSHORE_TEST": str(self.folder)},
            )
        self.workers.append(worker)
        self.logs.append(log)
        return worker

    def said(self, number: int = 0) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.logs[number].read_text().splitlines() if line.startswith("{")]

    def processes(self) -> list[Any]:
        """Every living process that descends from a worker of ours, however it tried to get away."""
        found = []
        for process in psutil.process_iter():
            try:
                ours = process.environ().get("LONGSHORE_TEST") == str(self.folder)
                if ours and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def wait_for(self, condition: Callable[[], Any], seconds: float = 60.0) -> Any:
        """Return what the condition returns as soon as it is true."""
        until = time.monotonic() + seconds
        while not (value := condition()):
            if time.monotonic() > until:
                logs = "\n".join(log.read_text() for log in self.logs)
                raise AssertionError(f"it never came true; the workers said:\n{logs}")
            time.sleep(0.02)
        return value

    def wait_for_file(self, name: str) -> str:
        path = self.folder / name
        return str(self.wait_for(lambda: path.exists() and path.read_text()))

    def ended(self, worker: subprocess.Popen[bytes], seconds: float = 60.0) -> int:
        self.wait_for(lambda: worker.poll() is not None, seconds)
        return worker.returncode


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    for worker in made.workers:
        if worker.poll() is None:
            worker.send_signal(signal.SIGKILL)
            worker.wait()
    _sweep(made.processes())


def _sweep(strays: Iterable[Any]) -> None:
    for stray in strays:
        try:
            stray.kill()
        except psutil.Error:
            continue
