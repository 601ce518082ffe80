"""Workers: one row for each live incarnation says until when its leases last; nobody touches jobs to keep them."""

from __future__ import annotations

import sqlite3

import msgspec

from longshore.errors import CrashedError, Failure
from longshore.lease import Held, WorkerId
from longshore.media.sqlite.lanes import CLAIMED, FAILED, READY, Moves
from longshore.media.sqlite.statements import statements
from longshore.queue import Reaped

_SQL = statements("workers")


def keep(db: sqlite3.Connection, worker: WorkerId, deadline: float) -> int:
    """Let all leases of the worker last until then, and say its number."""
    (number,) = db.execute(_SQL["keep"], (worker.label, worker.incarnation, deadline)).fetchone()
    return int(number)


def holdings(db: sqlite3.Connection, worker: int) -> list[Held]:
    """The leases of a worker."""
    return [Held(str(number), epoch) for number, epoch in db.execute(_SQL["holdings"], (worker,))]


def any_silent(db: sqlite3.Connection, now: float) -> bool:
    """Whether a reap would find a worker whose time is over."""
    (found,) = db.execute(_SQL["any_silent"], (now,)).fetchone()
    return bool(found)


def reap(db: sqlite3.Connection, now: float) -> Reaped:
    """Take everything from the workers whose time is over, and forget them."""
    returned = failed = 0
    moves = Moves()
    for worker, label in db.execute(_SQL["silent"], (now,)).fetchall():
        for lane, again, number, priority, job in db.execute(_SQL["lost"], (worker,)).fetchall():
            if again:
                returned += number
                moves.move(lane, CLAIMED, READY, number)
                moves.ready(lane, priority, job)
            else:
                failed += number
                moves.move(lane, CLAIMED, FAILED, number)
        failure = Failure.of(CrashedError(f"worker {label} went silent and its lease expired"))
        entry = {"worker": worker, "label": label, "now": now, "failure": msgspec.json.encode(failure)}
        db.execute(_SQL["add_failures"], entry)
        db.execute(_SQL["add_settlements"], {"worker": worker, "label": label, "now": now})
        db.execute(_SQL["return"], (worker,))
        db.execute(_SQL["forget"], (worker,))
    moves.write(db)
    return Reaped(returned, failed)
