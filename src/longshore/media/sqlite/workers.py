"""Workers: one row per live incarnation stores the deadline of all its leases, so that a renewal writes no job."""

from __future__ import annotations

import sqlite3

import msgspec

from longshore.errors import CrashedError, Failure
from longshore.extensions.presence import PresentWorker, worker_info
from longshore.lease import Held, WorkerId
from longshore.media.sqlite.lanes import CLAIMED, FAILED, READY, Moves, single_host
from longshore.media.sqlite.statements import statements
from longshore.queue import Reaped

_SQL = statements("workers")
_decode = msgspec.json.Decoder().decode


SLACK = 1.0
"""Seconds by which the clock may seem to run backwards between two processes although it was not set back."""


def extend_leases(db: sqlite3.Connection, worker: WorkerId, until: float, seconds: float) -> int:
    """Extend all leases of the worker, by `seconds`, until `until` by the lease clock; return the worker's number."""
    (number,) = db.execute(_SQL["keep"], (worker.label, worker.incarnation, until, seconds)).fetchone()
    return int(number)


def held_leases(db: sqlite3.Connection, worker: int) -> list[Held]:
    """Return the leases that a worker holds."""
    return [Held(str(number), epoch) for number, epoch in db.execute(_SQL["holdings"], (worker,))]


def any_silent(db: sqlite3.Connection, now: float) -> bool:
    """Return whether a reap has work: a worker's deadline passed, or the clock was set back since it was written."""
    (found,) = db.execute(_SQL["any_silent"], {"now": now, "slack": SLACK}).fetchone()
    return bool(found)


def reap(db: sqlite3.Connection, now: float, at: float) -> Reaped:
    """Take all leases from the workers whose deadline passed by the lease clock, and delete their rows.

    `at` is the time of day, for the history.
    """
    db.execute(_SQL["bring_near"], {"now": now, "slack": SLACK})
    returned = failed = 0
    moves = Moves()
    for worker, label in db.execute(_SQL["silent"], (now,)).fetchall():
        for lane, has_attempts, number, priority, job, *hosts in db.execute(_SQL["lost"], (worker,)).fetchall():
            if has_attempts:
                returned += number
                moves.move(lane, CLAIMED, READY, number)
                moves.ready(lane, priority, job, single_host(*hosts))
            else:
                failed += number
                moves.move(lane, CLAIMED, FAILED, number)
        failure = Failure.of(CrashedError(f"worker {label} went silent and its lease expired"))
        entry = {"worker": worker, "label": label, "now": at, "failure": msgspec.json.encode(failure)}
        db.execute(_SQL["add_failures"], entry)
        db.execute(_SQL["add_settlements"], {"worker": worker, "label": label, "now": at})
        db.execute(_SQL["return"], (worker,))
        db.execute(_SQL["forget"], (worker,))
    moves.write(db)
    return Reaped(returned, failed)


def register(db: sqlite3.Connection, worker: int, about: bytes) -> None:
    """Register a worker as present; `about` replaces its earlier description."""
    db.execute(_SQL["sign_in"], (worker, about))


def deregister(db: sqlite3.Connection, worker: WorkerId) -> None:
    """Remove a worker from the registry; it keeps its leases."""
    db.execute(_SQL["sign_out"], (worker.label, worker.incarnation))


def present(db: sqlite3.Connection, now: float) -> list[PresentWorker]:
    """Return the registered workers whose deadline has not passed, ordered by label."""
    return [
        PresentWorker(WorkerId(label, incarnation), worker_info(_decode(about)))
        for label, incarnation, about in db.execute(_SQL["present"], (now,))
    ]
