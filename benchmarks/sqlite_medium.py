"""The SQLite medium alone: the whole contract, without workers or handlers."""

from __future__ import annotations

import asyncio
import time
from hashlib import sha256
from pathlib import Path

from benchmarks.measure import PAYLOAD
from longshore.job import new_job
from longshore.lease import Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue

BATCH = 100
SUBMIT_BATCH = 5000


def submit(path: Path, jobs: int) -> float:
    """Add jobs, batch by batch. Jobs a second, without the time that it takes to make them up."""
    return asyncio.run(_submit(path, jobs))


async def _submit(path: Path, jobs: int) -> float:
    queue = await open_queue(f"sqlite:///{path}")
    seconds = 0.0
    for first in range(0, jobs, SUBMIT_BATCH):
        batch = [
            new_job("page", {**PAYLOAD, "n": number}, run="bench", key=sha256(b"%d" % number).hexdigest())
            for number in range(first, first + SUBMIT_BATCH)
        ]
        begin = time.monotonic()
        await queue.submit(batch)
        seconds += time.monotonic() - begin
    await queue.close()
    return jobs / seconds


def drain(path: Path, most: int = 1 << 62) -> int:
    """Claim and settle with a result, batch after batch, until nothing is left or that many are done."""
    return asyncio.run(_drain(path, most))


async def _drain(path: Path, most: int) -> int:
    queue = await open_queue(f"sqlite:///{path}")
    done = await drain_queue(queue, most)
    await queue.close()
    return done


def drain_in_sequence(path: Path) -> int:
    """The same with one call at a time, as the bare loop does it: no two calls can share a commit."""
    return asyncio.run(_drain_in_sequence(path))


async def _drain_in_sequence(path: Path) -> int:
    queue = await open_queue(f"sqlite:///{path}")
    want = Want(worker=WorkerId.new(), limit=BATCH)
    done = 0
    while leases := await queue.claim(want):
        done += sum(await queue.settle([Settlement(lease, Completed({"ok": True}), 0.001) for lease in leases]))
    await queue.close()
    return done


async def drain_queue(queue: Queue, most: int = 1 << 62) -> int:
    """The same on any open queue. The next batch is claimed while the last is settled, as a worker does."""
    want = Want(worker=WorkerId.new(), limit=BATCH)
    done = 0
    leases = await queue.claim(want)
    while leases and done < most:
        settlements = [Settlement(lease, Completed({"ok": True}), 0.001) for lease in leases]
        accepted, leases = await asyncio.gather(queue.settle(settlements), queue.claim(want))
        done += sum(accepted)
    return done
