"""Claims: the most urgent ready jobs over all lanes that match, at a cost that depends on neither backlog nor lanes.

Each lane keeps its ready jobs in order (index `job_claim`) and a lower bound of its first one, its head. Lanes are read
in the order of their heads, and only while a lane not read yet could still hold something more urgent than what is
already at hand. A head may be too low, after a claim or a cancel; who looks into a lane in vain corrects it.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from heapq import heappop, heappush
from typing import Any

import msgspec

from longshore.errors import Failure
from longshore.job import Job, JobName, State
from longshore.lease import Lease, Want, WorkerId
from longshore.media.sqlite.lanes import CLAIMED, DELAYED, READY, Moves, set_heads
from longshore.media.sqlite.statements import statements

PROMOTED_AT_ONCE = 5000
"""Delayed jobs that become ready in one transaction; a million due at once must not stop everyone else."""

_SQL = statements("claim")
_decode = msgspec.json.Decoder().decode
_decode_failure = msgspec.json.Decoder(Failure).decode

Row = tuple[Any, ...]


class Taken(msgspec.Struct, frozen=True):
    """Claimed jobs as read from the tables; made into leases once the lock is given up."""

    rows: list[tuple[Row, Row]]
    """Each lane with the job found in it."""
    failures: dict[int, bytes]

    def leases(self, worker: WorkerId, deadline: float) -> list[Lease]:
        """What the worker is given."""
        return [Lease(self._job(lane, row, worker), worker, deadline) for lane, row in self.rows]

    def _job(self, lane: Row, row: Row, worker: WorkerId) -> Job:
        _, run, kind, partition, _, _ = lane
        priority, number, key, host, payload, epoch, attempts, max_attempts, submitted_at = row[:9]
        parent_kind, parent_key, depth = row[9:]
        failure = self.failures.get(number)
        return Job(
            id=str(number),
            run=run,
            kind=kind,
            key=key,
            payload=_decode(payload),
            priority=priority,
            partition=partition,
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
        )


def take(db: sqlite3.Connection, want: Want, worker: int) -> Taken:
    """Claim for the worker of that number. Call `promote` first, so that what is due takes part."""
    rows = _most_urgent(db, want)
    failures = {}
    for _, row in rows:
        # Only a job that was claimed before can have failed.
        if row[5] and (failure := db.execute(_SQL["last_failure"], (row[1],)).fetchone()):
            failures[row[1]] = failure[0]
    if rows:
        db.execute(_SQL["take"], {"worker": worker, "jobs": json_list([row[1] for _, row in rows])})
        moves = Moves()
        for lane, number in Counter(lane[0] for lane, _ in rows).items():
            moves.move(lane, READY, CLAIMED, number)
        moves.write(db)
    return Taken(rows, failures)


def can_take(db: sqlite3.Connection, want: Want) -> bool:
    """Whether a claim would find something, as far as the counters tell."""
    return db.execute(_SQL["lanes"], _filters(want)).fetchone() is not None


def next_due(db: sqlite3.Connection) -> float | None:
    """When the next delayed job becomes ready; None if none is delayed."""
    (instant,) = db.execute(_SQL["next_due"]).fetchone()
    return None if instant is None else float(instant)


def promote(db: sqlite3.Connection, now: float) -> bool:
    """Make delayed jobs ready whose time has come. False if there were too many for one transaction: call again."""
    due = db.execute(_SQL["due"], (now, PROMOTED_AT_ONCE)).fetchall()
    if due:
        moves = Moves()
        for number, lane, priority in due:
            moves.move(lane, DELAYED, READY)
            moves.ready(lane, priority, number)
        db.executemany(_SQL["promote"], [(number,) for number, _, _ in due])
        moves.write(db)
    return len(due) < PROMOTED_AT_ONCE


def _most_urgent(db: sqlite3.Connection, want: Want) -> list[tuple[Row, Row]]:
    """Up to `want.limit` ready jobs with their lanes, most urgent first."""
    found: list[tuple[Row, Row]] = []
    lanes = db.execute(_SQL["lanes"], _filters(want))
    next_lane: Row | None = lanes.fetchone()
    at_hand: list[tuple[int, int, Row, Row, sqlite3.Cursor]] = []
    while len(found) < want.limit:
        # "Or equal": a bound that is too low may name the very place of another lane's job, and says nothing then.
        while next_lane is not None and (not at_hand or next_lane[4:6] <= at_hand[0][:2]):
            rest = db.execute(_SQL["ready"], (next_lane[0],))
            if (row := rest.fetchone()) is not None:
                heappush(at_hand, (row[0], row[1], next_lane, row, rest))
            next_lane = lanes.fetchone()
        if not at_hand:
            break
        _, _, lane, row, rest = heappop(at_hand)
        bounds = [bound[:2] for bound in at_hand[:1]] + ([] if next_lane is None else [next_lane[4:6]])
        bound = min(bounds, default=None)
        while row is not None and len(found) < want.limit and (bound is None or row[:2] < bound):
            found.append((lane, row))
            row = rest.fetchone()
        if row is not None:
            heappush(at_hand, (row[0], row[1], lane, row, rest))
    taken_from = {lane[0] for lane, _ in found}
    set_heads(db, {lane[0]: row[:2] for _, _, lane, row, _ in at_hand if lane[0] not in taken_from})
    return found


def _filters(want: Want) -> dict[str, str | None]:
    return {"run": want.run, "kinds": json_list(want.kinds), "partitions": json_list(want.partitions)}


def json_list(values: Iterable[str] | Iterable[int] | None) -> str | None:
    """A list as SQLite's `json_each` reads it."""
    return None if values is None else msgspec.json.encode(list(values)).decode()
