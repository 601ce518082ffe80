"""The directory medium alone: the whole contract, synced, without workers or handlers."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from benchmarks.measure import PAYLOAD
from longshore.clock import SystemClock
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media.directory import open_queue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue

BATCH = 100
SUBMIT_BATCH = 1000


def fill(root: Path, jobs: int) -> float:
    """A queue with that many jobs pending. Returns the jobs submitted a second."""
    return asyncio.run(_fill(root, jobs))


async def _fill(root: Path, jobs: int) -> float:
    queue = await open_queue(f"dir://{root}", SystemClock())
    begin = time.monotonic()
    for first in range(0, jobs, SUBMIT_BATCH):
        numbers = range(first, min(first + SUBMIT_BATCH, jobs))
        await queue.submit([new_job("page", {**PAYLOAD, "n": n}, run="bench", key=str(n)) for n in numbers])
    seconds = time.monotonic() - begin
    await queue.close()
    return jobs / seconds


def drain(root: Path) -> int:
    """Claim and settle with a result, batch after batch, until nothing is left."""
    return asyncio.run(_drain(root))


async def _drain(root: Path) -> int:
    queue = await open_queue(f"dir://{root}", SystemClock())
    want = Want(worker=WorkerId.new(), limit=BATCH)
    done = 0
    while leases := await queue.claim(want):
        done += sum(await queue.settle([Settlement(lease, Completed({"ok": True}), 0.001) for lease in leases]))
    await queue.close()
    return done


def claims_by_turns(roots: dict[str, Path], rounds: int) -> dict[str, list[float]]:
    """Seconds of single claims of ten jobs, by turns on each queue."""
    return asyncio.run(_claims_by_turns(roots, rounds))


async def _claims_by_turns(roots: dict[str, Path], rounds: int) -> dict[str, list[float]]:
    queues: dict[str, Queue] = {name: await open_queue(f"dir://{root}", SystemClock()) for name, root in roots.items()}
    want = Want(worker=WorkerId.new(), limit=10)
    taken: dict[str, list[float]] = {name: [] for name in queues}
    for _ in range(rounds):
        for name, queue in queues.items():
            begin = time.perf_counter()
            leases = await queue.claim(want)
            taken[name].append(time.perf_counter() - begin)
            assert len(leases) == 10
    for queue in queues.values():
        await queue.close()
    return taken
