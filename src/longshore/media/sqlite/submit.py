"""Submission: new jobs get a number, a lane and a place; known ones are left out."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b
from itertools import chain, count
from operator import itemgetter
from typing import Any

import msgspec

from longshore.job import NewJob
from longshore.media.sqlite.lanes import DELAYED, READY, Moves
from longshore.media.sqlite.statements import statements

_SQL = statements("submit")
_encode = msgspec.json.Encoder().encode

_ROWS_AT_ONCE = 50


class NewRows:
    """Jobs on their way into the tables; what needs no look at them is done here, before the lock is taken."""

    def __init__(self, jobs: Sequence[NewJob], now: float) -> None:
        self._jobs = jobs
        self._now = now
        digests = {names: _digest_of(names) for names in {(job.run, job.kind) for job in jobs}}
        self._identities = [_identity(digests[job.run, job.kind], job.key) for job in jobs]
        self._payloads = [_encode(job.payload) for job in jobs]

    def write(self, db: sqlite3.Connection) -> int:
        """Add the jobs that are not known yet, in order, and say how many those were."""
        if not self._jobs:
            return 0
        (first,) = db.execute(_SQL["next_job"]).fetchone()
        names = {(job.run, job.kind, job.partition) for job in self._jobs}
        lanes = {name: _lane(db, name) for name in names}
        now = self._now
        rows = [
            (
                number,
                lanes[job.run, job.kind, job.partition],
                READY if job.not_before is None or job.not_before <= now else DELAYED,
                job.priority,
                job.max_attempts,
                job.not_before,
                now,
                identity,
            )
            for number, job, identity in zip(count(first), self._jobs, self._identities, strict=False)
        ]
        contents = [
            (number, job.key, job.host, payload)
            for number, job, payload in zip(count(first), self._jobs, self._payloads, strict=False)
        ]
        if _insert(db, _SQL["add_job"], rows) != len(rows):
            fresh = {number for (number,) in db.execute(_SQL["added_since"], (first,))}
            rows = [row for row in rows if row[0] in fresh]
            contents = [content for content in contents if content[0] in fresh]
        if rows:
            _insert(db, _SQL["add_content"], contents)
            db.execute(_SQL["take_numbers"], (len(self._jobs),))
            _count(db, rows)
        return len(rows)


def _insert(db: sqlite3.Connection, statement: str, rows: Sequence[tuple[Any, ...]]) -> int:
    """Insert rows, many with each statement: a statement for each row costs a tenth more. Says how many were new."""
    values = f"({', '.join('?' * len(rows[0]))})"
    whole = len(rows) - len(rows) % _ROWS_AT_ONCE
    several = statement.replace(values, ", ".join([values] * _ROWS_AT_ONCE))
    new = 0
    for first in range(0, whole, _ROWS_AT_ONCE):
        group = rows[first : first + _ROWS_AT_ONCE]
        new += db.execute(several, tuple(chain.from_iterable(group))).rowcount
    return new + max(0, db.executemany(statement, rows[whole:]).rowcount)


def _count(db: sqlite3.Connection, rows: Sequence[tuple[Any, ...]]) -> None:
    moves = Moves()
    # One bound for all lanes of the batch: a head may be too low, and finding each lane's own would cost every job.
    first, urgent = rows[0][0], min(map(itemgetter(3), rows))
    for (lane, state), number in Counter(map(itemgetter(1, 2), rows)).items():
        moves.add(lane, state, number)
        if state == READY:
            moves.ready(lane, urgent, first)
    moves.write(db)


def _lane(db: sqlite3.Connection, name: tuple[str, str, str]) -> int:
    found = db.execute(_SQL["find_lane"], name).fetchone()
    if found is not None:
        return int(found[0])
    return db.execute(_SQL["add_lane"], name).lastrowid or 0


def _digest_of(names: tuple[str, str]) -> blake2b:
    return blake2b(_encode(names), digest_size=16)


def _identity(names: blake2b, key: str) -> bytes:
    """What makes a job unique: a digest of run, kind and key.

    The index of identities is the largest, and the only one written in random order; 16 bytes an entry keep it several
    times smaller than the words themselves would, and 128 bits do not collide.
    """
    digest = names.copy()
    digest.update(key.encode())
    return digest.digest()
