"""Jobs counted by values that the queue has no counters for: worker, host, error. It reads every job, page by page."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from longshore.job import Job, State
from longshore.queue import Queue, Selection, each_job

KEPT = 10_000
"""Names with a count of their own; further names are counted as `OTHERS`, so that memory stays bounded."""
OTHERS = "(others)"
_PROGRESS_EVERY = 5000


class By(StrEnum):
    """A value by which jobs are counted."""

    KIND = "kind"
    PARTITION = "partition"
    WORKER = "worker"
    HOST = "host"
    ERROR = "error"


class Part(msgspec.Struct, kw_only=True):
    """The counts of the jobs that share one value."""

    name: str
    pending: int = 0
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    timed: int = 0
    """Jobs whose last attempt has a known duration."""
    seconds: float = 0.0
    """Sum of these durations."""
    example: str = ""
    """The message of one failure; only set if jobs are counted by error."""

    @property
    def total(self) -> int:
        return self.pending + self.claimed + self.completed + self.failed + self.cancelled


_STATES = {
    # A pending job has no worker. A completed job has no failure any more.
    By.WORKER: frozenset({State.CLAIMED, State.COMPLETED, State.FAILED}),
    By.ERROR: frozenset({State.PENDING, State.CLAIMED, State.FAILED, State.CANCELLED}),
}


async def breakdown(queue: Queue, run: str | None, by: By, read: Callable[[int], None]) -> list[Part]:
    """Return the counts of the jobs of a run, or of all runs, by `by`; the largest first.

    `read` is called now and then with the number of jobs already read.
    """
    parts: dict[str, Part] = {}
    number = 0
    async for job in each_job(queue, Selection(run=run, states=_STATES.get(by))):
        number += 1
        if number % _PROGRESS_EVERY == 0:
            read(number)
        name = _name(job, by)
        if name is None:
            continue
        if name not in parts and len(parts) >= KEPT:
            name = OTHERS
        part = parts.setdefault(name, Part(name=name))
        setattr(part, job.state, getattr(part, job.state) + 1)
        if job.seconds is not None:
            part.timed, part.seconds = part.timed + 1, part.seconds + job.seconds
        if by is By.ERROR and job.failure is not None:
            part.example = part.example or job.failure.message
    return sorted(parts.values(), key=lambda part: (-part.total, part.name))


def _name(job: Job, by: By) -> str | None:
    match by:
        case By.KIND:
            return job.kind
        case By.PARTITION:
            return job.partition
        case By.WORKER:
            return job.worker
        case By.HOST:
            return job.host
        case By.ERROR:
            return None if job.failure is None else job.failure.label
