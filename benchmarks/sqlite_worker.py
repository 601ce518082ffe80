"""Whole workers on SQLite: claim, a no-op async handler, settlement with results, statistics, log."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from pathlib import Path

import psutil

from benchmarks.measure import SPAWN
from longshore.lease import WorkerId
from longshore.observe import configure
from longshore.worker import RunFinished, WorkerConfig, work

HANDLER = """
from longshore import handler

@handler("page")
async def page(job, kit):
    return {"ok": True}
"""


def handler_file(folder: Path) -> Path:
    """The file a user would write."""
    file = folder / "noop.py"
    file.write_text(HANDLER)
    return file


def drain(queue: Path, handlers: Path, log: Path) -> int:
    """One worker, until the run is done; says how many jobs it completed."""
    with log.open("a") as stream:
        configure(format="json", stream=stream)
        config = WorkerConfig(
            queue_url=f"sqlite:///{queue}",
            handler_file=handlers,
            worker=WorkerId.new(),
            lease=timedelta(seconds=60),
            run="bench",
            batch_size=100,
            concurrency=32,
            stop=(RunFinished("bench"),),
            keep_awake=False,
        )
        return asyncio.run(work(config)).completed


def growth(queue: Path, handlers: Path, log: Path) -> tuple[float, float]:
    """The memory of one worker in MB: after the first tenth of the jobs, and at its peak, by a watcher beside it."""
    worker = SPAWN.Process(target=drain, args=(queue, handlers, log))
    worker.start()
    seen = []
    process = psutil.Process(worker.pid)
    while worker.is_alive():
        try:
            seen.append(process.memory_info().rss / 1e6)
        except psutil.NoSuchProcess:
            break
        worker.join(timeout=0.5)
    worker.join()
    settled = seen[max(4, len(seen) // 10)] if len(seen) > 4 else seen[-1]
    return settled, max(seen)
