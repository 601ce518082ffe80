"""A process for the suite that repeats one kind of operation until it is killed.

    python -m longshore.conformance.killed_process URL OPERATION RUN

It changes only the jobs of its run, and prints a line for each call that returned: those effects must persist.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from itertools import count
from typing import Any

from longshore.errors import Failure
from longshore.extensions.find import require
from longshore.extensions.transfer import Carried, TakesOver
from longshore.job import Attempt, Job, NewJob, State
from longshore.lease import Lease, Want, WorkerId
from longshore.media import open_queue
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, Selection

BATCH = 20
"""The number of jobs in one call."""
LEASE = timedelta(seconds=1)
SHORT = timedelta(milliseconds=1)
"""A lease that has expired by the next reap."""


def batch(run: str, number: int) -> list[NewJob]:
    """Return the jobs of one call; their keys are `NUMBER.PLACE`."""
    return [_job(run, f"{number}.{place}") for place in range(BATCH)]


def follow_ons(run: str, key: str) -> tuple[NewJob, ...]:
    """Return the follow-on jobs of the job with this key."""
    return tuple(_job(run, f"{key}/{name}", kind="follow-on") for name in "ab")


def carried(run: str, number: int) -> list[Carried]:
    """Return the jobs of one transfer: every other one is completed, and each has failed once before."""
    failed = Attempt(epoch=1, worker="before", ended_at=1.0, failure=Failure("processing", "it broke"))
    fields: dict[str, Any] = {"run": run, "kind": "page", "epoch": 2, "max_attempts": 1_000_000}
    ended = {"state": State.COMPLETED, "settled_at": 2.0, "worker": "before"}
    return [
        Carried(
            Job(id="", key=job.key, payload=job.payload, attempts=2, result=job.key, **fields | ended)
            if place % 2
            else Job(id="", key=job.key, payload=job.payload, attempts=1, failure=failed.failure, **fields),
            (failed,),
        )
        for place, job in enumerate(batch(run, number))
    ]


def _job(run: str, key: str, kind: str = "page") -> NewJob:
    return NewJob(run=run, kind=kind, key=key, payload={"key": key}, max_attempts=1_000_000)


async def _submit(queue: Queue, run: str) -> None:
    for number in count():
        await queue.submit(batch(run, number))
        _say(str(number))


async def _take_over(queue: Queue, run: str) -> None:
    for number in count():
        await require(queue, TakesOver, "lacks it").take_over(carried(run, number))
        _say(str(number))


async def _claim(queue: Queue, run: str) -> None:
    want = _want(run)
    while leases := await queue.claim(want):
        _say(*(_name(lease) for lease in leases))
    await _idle()


async def _settle(queue: Queue, run: str) -> None:
    want = _want(run)
    while leases := await queue.claim(want):
        _say("try", *(_name(lease) for lease in leases))
        settled = [Settlement(lease, Completed(lease.job.key, follow_ons(run, lease.job.key))) for lease in leases]
        answers = await queue.settle(settled)
        # On a busy machine the leases may have expired, and then the queue refuses the settlements.
        _say("done", *(_name(lease) for lease, accepted in zip(leases, answers, strict=True) if accepted))
    await _idle()


async def _renew(queue: Queue, run: str) -> None:
    want = _want(run)
    leases = await queue.claim(want)
    while True:
        await queue.renew(want.worker, LEASE)
        _say(*(_name(lease) for lease in leases))


async def _reap(queue: Queue, run: str) -> None:
    while True:
        await queue.claim(_want(run, SHORT))
        await queue.reap()
        _say("reaped")


async def _cancel_and_retry(queue: Queue, run: str) -> None:
    everything = Selection(run=run)
    while True:
        await queue.cancel(everything)
        _say("cancelled")
        await queue.retry(everything)
        _say("retried")


async def _prune(queue: Queue, run: str) -> None:
    everything = Selection(run=run)
    while True:
        await queue.cancel(everything)
        await queue.prune(everything)
        _say("pruned")
        await queue.submit(batch(run, 0))
        _say("submitted")


async def _be_born(queue: Queue, run: str) -> None:
    await queue.submit(batch(run, 0))
    (first,) = await queue.jobs(Selection(run=run), limit=1)
    _say(first.queue)
    await _idle()


OPERATIONS: dict[str, Callable[[Queue, str], Awaitable[None]]] = {
    "submit": _submit,
    "take-over": _take_over,
    "claim": _claim,
    "settle": _settle,
    "renew": _renew,
    "reap": _reap,
    "cancel-and-retry": _cancel_and_retry,
    "prune": _prune,
    "be-born": _be_born,
}


def _want(run: str, lease: timedelta = LEASE) -> Want:
    return Want(worker=WorkerId.new(f"killed in {run}"), limit=BATCH, lease=lease, run=run, kinds=frozenset({"page"}))


def _name(lease: Lease) -> str:
    return lease.job.key


async def _idle() -> None:
    """Wait to be killed."""
    await asyncio.Event().wait()


def _say(*words: str) -> None:
    sys.stdout.write(" ".join(words) + "\n")
    sys.stdout.flush()


async def repeat(url: str, operation: str, run: str) -> None:
    """Repeat the operation until the process is killed. It says when it is about to open the queue."""
    if operation == "be-born":
        _say("opening")
    await OPERATIONS[operation](await open_queue(url), run)


if __name__ == "__main__":
    asyncio.run(repeat(*sys.argv[1:]))
