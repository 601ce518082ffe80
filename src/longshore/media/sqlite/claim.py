"""Claims: lease the jobs that a `Search` found to the worker; make delayed jobs ready when they are due."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any

import msgspec

from longshore.errors import Failure
from longshore.extensions.transfer import decode_came_from
from longshore.job import Job, JobName, State
from longshore.lease import Lease, WorkerId
from longshore.media.sqlite.host_turns import Search
from longshore.media.sqlite.lanes import CLAIMED, DELAYED, READY, Moves, set_heads
from longshore.media.sqlite.statements import json_list, statements
from longshore.media.sqlite.wanted_lanes import LaneRow

PROMOTED_AT_ONCE = 5000
"""Maximum number of delayed jobs that become ready in one transaction: a long one would block all other writers."""

_SQL = statements("claim")
_decode = msgspec.json.Decoder().decode
_decode_failure = msgspec.json.Decoder(Failure).decode

Row = tuple[Any, ...]


class Taken(msgspec.Struct, frozen=True):
    """Claimed jobs as read from the tables; `leases` converts them after the transaction released the lock."""

    rows: list[tuple[LaneRow, Row]]
    """Each claimed job's row, with the lane it was found in."""
    failures: dict[int, bytes]
    """The last failure of each job that failed before, by job number."""

    def leases(self, worker: WorkerId, deadline: float, queue: str) -> list[Lease]:
        """Return the leases of the claimed jobs for this worker; `queue` is the uuid of the queue."""
        return [Lease(self._job(lane, row, worker, queue), worker, deadline) for lane, row in self.rows]

    def _job(self, lane: LaneRow, row: Row, worker: WorkerId, queue: str) -> Job:
        priority, number, key, host, payload, epoch, attempts, max_attempts, submitted_at = row[:9]
        parent_kind, parent_key, depth, came_from = row[9:]
        failure = self.failures.get(number)
        return Job(
            id=str(number),
            run=lane.run,
            kind=lane.kind,
            key=key,
            payload=_decode(payload),
            priority=priority,
            partition=lane.partition,
            host=host,
            parent=None if parent_kind is None else JobName(parent_kind, parent_key),
            depth=depth,
            state=State.CLAIMED,
            epoch=epoch + 1,
            attempts=attempts,
            max_attempts=max_attempts,
            submitted_at=submitted_at,
            worker=worker.label,
            failure=None if failure is None else _decode_failure(failure),
            queue=queue,
            came_from=decode_came_from(came_from),
        )


def take(db: sqlite3.Connection, search: Search, limit: int, worker: int) -> Taken:
    """Claim up to `limit` jobs for the worker with this number. Call `promote` first, so that due jobs are included."""
    found = search.run(db, limit)
    taken_from = {lane.id for lane, _ in found.jobs}
    set_heads(db, {lane: head for lane, head in found.heads.items() if lane not in taken_from})
    numbers = json_list([number for _, number in found.jobs])
    rows = [(lane, row) for (lane, _), row in zip(found.jobs, db.execute(_SQL["read"], (numbers,)), strict=True)]
    failures = {}
    for _, row in rows:
        # Only a job with an epoch, one that was claimed before, can have failed.
        if row[5] and (failure := db.execute(_SQL["last_failure"], (row[1],)).fetchone()):
            failures[row[1]] = failure[0]
    if rows:
        db.execute(_SQL["take"], {"worker": worker, "jobs": numbers})
        moves = Moves()
        for lane, number in Counter(lane.id for lane, _ in rows).items():
            moves.move(lane, READY, CLAIMED, number)
        moves.write(db)
    return Taken(rows, failures)


def can_take(db: sqlite3.Connection, search: Search) -> bool:
    """Return whether a claim would find a job."""
    return bool(search.run(db, 1).jobs)


def next_due(db: sqlite3.Connection) -> float | None:
    """Return when the next delayed job becomes ready; None if no job is delayed."""
    (instant,) = db.execute(_SQL["next_due"]).fetchone()
    return None if instant is None else float(instant)


def promote(db: sqlite3.Connection, now: float) -> bool:
    """Make due delayed jobs ready. Return False if they were too many for one transaction: call again."""
    due = db.execute(_SQL["due"], (now, PROMOTED_AT_ONCE)).fetchall()
    if due:
        moves = Moves()
        for number, lane, priority, host in due:
            moves.move(lane, DELAYED, READY)
            moves.ready(lane, priority, number, host)
        db.executemany(_SQL["promote"], [(number,) for number, *_ in due])
        moves.write(db)
    return len(due) < PROMOTED_AT_ONCE
