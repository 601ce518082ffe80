"""An idle waiter: how soon it has a job that another process submitted, and what waiting costs."""

from __future__ import annotations

import asyncio
import random
import statistics
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.measure import SPAWN
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement


def latency(path: Path, jobs: int = 200) -> float:
    """Median milliseconds from the call of submit in one process to the lease in another's hands."""
    arrivals = SPAWN.SimpleQueue()
    waiter = SPAWN.Process(target=_take, args=(path, arrivals, jobs))
    waiter.start()
    arrivals.get()
    departures = asyncio.run(_submit_now_and_then(path, jobs))
    took = [float(arrivals.get()) - departures[number] for number in range(jobs)]
    waiter.join()
    return statistics.median(took) * 1000


async def _submit_now_and_then(path: Path, jobs: int) -> list[float]:
    queue = await open_queue(f"sqlite:///{path}")
    departures = []
    for number in range(jobs):
        # Not in step with the waiter's own rhythm.
        await asyncio.sleep(random.uniform(0.03, 0.06))
        departures.append(time.monotonic())
        await queue.submit([new_job("page", {"n": number}, run="bench")])
    await queue.close()
    return departures


def _take(path: Path, arrivals: Any, jobs: int) -> None:
    asyncio.run(_take_as_they_come(path, arrivals, jobs))


async def _take_as_they_come(path: Path, arrivals: Any, jobs: int) -> None:
    queue = await open_queue(f"sqlite:///{path}")
    want = Want(worker=WorkerId.new(), limit=10)
    arrivals.put(time.monotonic())
    taken = 0
    while taken < jobs:
        await queue.wait(want, timedelta(seconds=60))
        leases = await queue.claim(want)
        for _ in leases:
            arrivals.put(time.monotonic())
        await queue.settle([Settlement(lease, Completed()) for lease in leases])
        taken += len(leases)
    await queue.close()


def idle_cost(path: Path, seconds: float = 10.0) -> float:
    """Percent of a core that a waiter uses while nothing happens."""
    answers = SPAWN.SimpleQueue()
    waiter = SPAWN.Process(target=_wait, args=(path, seconds, answers))
    waiter.start()
    share = float(answers.get())
    waiter.join()
    return share * 100


def _wait(path: Path, seconds: float, answers: Any) -> None:
    answers.put(asyncio.run(_cost_of_waiting(path, seconds)))


async def _cost_of_waiting(path: Path, seconds: float) -> float:
    queue = await open_queue(f"sqlite:///{path}")
    want = Want(worker=WorkerId.new())
    await queue.wait(want, timedelta(seconds=0.1))
    used, begin = time.process_time(), time.monotonic()
    await queue.wait(want, timedelta(seconds=seconds))
    share = (time.process_time() - used) / (time.monotonic() - begin)
    await queue.close()
    return share
