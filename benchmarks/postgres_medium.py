"""The PostgreSQL medium alone: the whole contract, without workers or handlers."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import cast

from benchmarks.measure import PAYLOAD, Settled, meet, together_each
from longshore.clock import SystemClock
from longshore.job import NewJob, new_job
from longshore.lease import Lease, Want, WorkerId
from longshore.media.postgres import PostgresQueue
from longshore.outcome import Completed, Settlement

SUBMIT_BATCH = 5000
"""What `longshore submit` hands over at a time."""


def submit(url: str, jobs: int, *, partitions: int = 1, first: int = 0) -> float:
    """Add jobs, batch by batch. Jobs a second, from jobs whose keys are known and whose payloads are dictionaries."""
    return asyncio.run(_submit(url, jobs, partitions, first))


async def _submit(url: str, jobs: int, partitions: int, first: int) -> float:
    queue = await PostgresQueue.open(url, SystemClock())
    seconds = 0.0
    for start in range(first, first + jobs, SUBMIT_BATCH):
        batch = [_job(n, partitions) for n in range(start, min(start + SUBMIT_BATCH, first + jobs))]
        begin = time.monotonic()
        answer = await queue.submit(batch)
        seconds += time.monotonic() - begin
        if answer.new != len(batch):
            raise RuntimeError(f"{answer.duplicates:,} of {len(batch):,} jobs were there already")
    await queue.close()
    return jobs / seconds


def _job(number: int, partitions: int) -> NewJob:
    return new_job(
        "page",
        {**PAYLOAD, "n": number},
        run="bench",
        key=sha256(b"%d" % number).hexdigest(),
        partition=f"{number * 7919 % partitions}" if partitions > 1 else "",
    )


def fill(url: str, jobs: int) -> None:
    """Add jobs as fast as two processes can."""
    submit(url, min(jobs, SUBMIT_BATCH))
    rest = jobs - SUBMIT_BATCH
    if rest > 0:
        half = rest // 2
        together_each(_fill, [(url, half, SUBMIT_BATCH), (url, rest - half, SUBMIT_BATCH + half)])


def _fill(url: str, jobs: int, first: int) -> None:
    submit(url, jobs, first=first)


def drain(url: str, batch: int, most: int = 1 << 62, partitions: Sequence[str] | None = None) -> list[Settled]:
    """Claim the next batch while the last one is settled, as a worker does, until nothing is left or enough is done."""
    return asyncio.run(_drain(url, batch, most, partitions))


async def _drain(url: str, batch: int, most: int, partitions: Sequence[str] | None) -> list[Settled]:
    queue = await PostgresQueue.open(url, SystemClock())
    wanted = None if partitions is None else frozenset(partitions)
    want = Want(worker=WorkerId.new(), limit=batch, run="bench", kinds=frozenset({"page"}), partitions=wanted)
    found, done, name = [], 0, str(os.getpid())
    meet()
    leases = await queue.claim(want)
    while leases:
        settlements = [Settlement(lease, Completed({"ok": True}), 0.001) for lease in leases]
        if done + len(leases) >= most:
            accepted, leases = await queue.settle(settlements), []
        else:
            answers = await asyncio.gather(queue.settle(settlements), queue.claim(want))
            accepted, leases = cast("tuple[list[bool], list[Lease]]", tuple(answers))
        done += sum(accepted)
        found.append(Settled(name, time.monotonic(), sum(accepted)))
    await queue.close()
    return found
