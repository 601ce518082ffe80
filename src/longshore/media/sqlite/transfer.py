"""Transfer: jobs of another queue get a number and a lane here, and keep all their other data."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from itertools import count

from longshore.extensions.transfer import Carried, encode_came_from
from longshore.job import FINISHED, Job, State
from longshore.media.sqlite.hosts import host_number
from longshore.media.sqlite.lanes import CANCELLED, COMPLETED, DELAYED, FAILED, READY
from longshore.media.sqlite.statements import statements
from longshore.media.sqlite.submit import Row, add_jobs, find_lanes, identities, insert, next_job, without
from longshore.stored import encode

_SQL = statements("transfer")
_SETTLE = statements("settle")

_ENDINGS = {State.COMPLETED: COMPLETED, State.FAILED: FAILED, State.CANCELLED: CANCELLED}
_BEFORE_ANY_CLAIM = 0
"""The epoch of a failure that was transferred without its attempt: the job shows it, the history does not."""


class CarriedRows:
    """A batch of transferred jobs. The constructor does all work that needs no read, before the lock is taken."""

    def __init__(self, carried: Sequence[Carried], now: float) -> None:
        self._jobs = [item.job for item in carried]
        self._now = now
        self._identities = identities(self._jobs)
        self._contents: list[Row] = [_content(item) for item in carried]
        self._endings = [_ending(job) for job in self._jobs]
        self._failures = [_failures(item) for item in carried]

    def write(self, db: sqlite3.Connection) -> int:
        """Add the jobs that are not known yet, in order; return how many were added."""
        if not self._jobs:
            return 0
        lanes, first = find_lanes(db, self._jobs), next_job(db)
        rows = [
            (
                number,
                lanes[job.run, job.kind, job.partition],
                self._state(job),
                job.priority,
                host_number(job.host),
                job.max_attempts,
                None if job.state is State.CLAIMED else job.not_before,
                job.submitted_at,
                identity,
                job.epoch,
                job.attempts,
            )
            for number, job, identity in zip(count(first), self._jobs, self._identities, strict=False)
        ]
        known = add_jobs(db, _SQL["add_job"], rows)
        contents = [(number, *content) for number, content in zip(count(first), self._contents, strict=False)]
        endings = [(number, *ending) for number, ending in zip(count(first), self._endings, strict=False) if ending]
        failures = [
            (number, *entry) for number, entries in zip(count(first), self._failures, strict=False) for entry in entries
        ]
        insert(db, _SQL["add_content"], without(known, contents))
        insert(db, _SETTLE["add_settlement"], without(known, endings))
        insert(db, _SETTLE["add_failure"], without(known, failures))
        return len(rows) - len(known)

    def _state(self, job: Job) -> int:
        if job.state in FINISHED:
            return _ENDINGS[job.state]
        waits = job.state is State.PENDING and job.not_before is not None and job.not_before > self._now
        return DELAYED if waits else READY


def _content(item: Carried) -> Row:
    job = item.job
    parent = (None, None) if job.parent is None else (job.parent.kind, job.parent.key)
    return (
        job.key,
        job.host,
        encode(job.payload, "A job's payload"),
        *parent,
        job.depth,
        encode_came_from(item.came_from),
    )


def _ending(job: Job) -> Row | None:
    if job.state not in FINISHED:
        return None
    settled_at = job.submitted_at if job.settled_at is None else job.settled_at
    result = None if job.result is None else encode(job.result, "A result")
    return (settled_at, job.seconds, job.worker, result, job.handler_version or None)


def _failures(carried: Carried) -> list[Row]:
    job = carried.job
    entries = [(a.epoch, a.worker, a.ended_at, a.seconds, encode(a.failure, "A failure")) for a in carried.history]
    if entries or job.failure is None:
        return entries
    return [(_BEFORE_ANY_CLAIM, "", job.submitted_at, None, encode(job.failure, "A failure"))]
