"""Jobs counted by what no counter knows: worker, host, or what they failed of. Every job is read, page by page."""

from __future__ import annotations

from collections.abc import Callable
from enum import StrEnum

import msgspec

from longshore.job import Job, State
from longshore.queue import Queue, Selection, each_job

KEPT = 10_000
"""Names that are counted for themselves; past these, others are counted as `OTHERS`, so that memory stays bounded."""
OTHERS = "(others)"
_TOLD_EVERY = 5000


class By(StrEnum):
    """What jobs may be counted by."""

    KIND = "kind"
    PARTITION = "partition"
    WORKER = "worker"
    HOST = "host"
    ERROR = "error"


class Part(msgspec.Struct, kw_only=True):
    """The jobs of one name."""

    name: str
    pending: int = 0
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0
    timed: int = 0
    """Jobs of which it is known how long the last attempt took, and how long these took in all."""
    seconds: float = 0.0
    example: str = ""
    """The message of one failure; only where jobs are counted by error."""

    @property
    def total(self) -> int:
        return self.pending + self.claimed + self.completed + self.failed + self.cancelled


_STATES = {
    # Nobody has a job that is pending. One that is completed has no failure any more.
    By.WORKER: frozenset({State.CLAIMED, State.COMPLETED, State.FAILED}),
    By.ERROR: frozenset({State.PENDING, State.CLAIMED, State.FAILED, State.CANCELLED}),
}


async def breakdown(queue: Queue, run: str | None, by: By, read: Callable[[int], None]) -> list[Part]:
    """The jobs of a run, or of all, by what `by` says; the most numerous first. `read` is told how many were read."""
    parts: dict[str, Part] = {}
    number = 0
    async for job in each_job(queue, Selection(run=run, states=_STATES.get(by))):
        number += 1
        if number % _TOLD_EVERY == 0:
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
