"""Workers: one row for each live incarnation says until when its leases last; nobody touches jobs to keep them."""

from __future__ import annotations

import sqlite3

import msgspec

from longshore.errors import CrashedError, Failure
from longshore.extensions.presence import PresentWorker, worker_info
from longshore.lease import Held, WorkerId
from longshore.media.sqlite.lanes import CLAIMED, FAILED, READY, Moves, sole
from longshore.media.sqlite.statements import statements
from longshore.queue import Reaped

_SQL = statements("workers")
_decode = msgspec.json.Decoder().decode


SLACK = 1.0
"""Seconds by which the clocks that two processes read may seem to run backwards without anyone having set them."""


def keep(db: sqlite3.Connection, worker: WorkerId, now: float, seconds: float) -> int:
    """Let all leases of the worker last for so many seconds from now, and say its number."""
    (number,) = db.execute(_SQL["keep"], (worker.label, worker.incarnation, now + seconds, seconds)).fetchone()
    return int(number)


def holdings(db: sqlite3.Connection, worker: int) -> list[Held]:
    """The leases of a worker."""
    return [Held(str(number), epoch) for number, epoch in db.execute(_SQL["holdings"], (worker,))]


def any_silent(db: sqlite3.Connection, now: float) -> bool:
    """Whether a reap would find something to do: a worker whose time is over, or one whose time was set back."""
    (found,) = db.execute(_SQL["any_silent"], {"now": now, "slack": SLACK}).fetchone()
    return bool(found)


def reap(db: sqlite3.Connection, now: float) -> Reaped:
    """Take everything from the workers whose time is over, and forget them."""
    db.execute(_SQL["bring_near"], {"now": now, "slack": SLACK})
    returned = failed = 0
    moves = Moves()
    for worker, label in db.execute(_SQL["silent"], (now,)).fetchall():
        for lane, again, number, priority, job, *hosts in db.execute(_SQL["lost"], (worker,)).fetchall():
            if again:
                returned += number
                moves.move(lane, CLAIMED, READY, number)
                moves.ready(lane, priority, job, sole(*hosts))
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


def sign_in(db: sqlite3.Connection, worker: int, about: bytes) -> None:
    """Put a worker on the roll, with these words in place of any it said before."""
    db.execute(_SQL["sign_in"], (worker, about))


def sign_out(db: sqlite3.Connection, worker: WorkerId) -> None:
    """Take a worker off the roll; what it holds it still holds."""
    db.execute(_SQL["sign_out"], (worker.label, worker.incarnation))


def present(db: sqlite3.Connection, now: float) -> list[PresentWorker]:
    """Those on the roll whose time is not over, by label."""
    return [
        PresentWorker(WorkerId(label, incarnation), worker_info(_decode(about)))
        for label, incarnation, about in db.execute(_SQL["present"], (now,))
    ]
