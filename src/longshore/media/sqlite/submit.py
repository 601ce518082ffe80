"""Submission: give each new job a number and a lane; leave out jobs that are already known."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from hashlib import blake2b
from itertools import chain, count
from operator import itemgetter
from typing import Any

import msgspec

from longshore.job import Job, JobName, NewJob
from longshore.media.sqlite.hosts import host_number
from longshore.media.sqlite.lanes import DELAYED, READY, Moves
from longshore.media.sqlite.statements import statements
from longshore.stored import check_texts, encode

_SQL = statements("submit")

_ROWS_AT_ONCE = 50

Row = tuple[Any, ...]
Origin = tuple[str, str, int]
"""The origin of a follow-on job: its parent's kind and key, and its depth (the number of its ancestors)."""


class NewRows:
    """A batch of jobs to add. The constructor does all work that does not read the tables, before the lock is taken."""

    def __init__(self, jobs: Sequence[NewJob], now: float, origins: Sequence[Origin] = ()) -> None:
        """Prepare the jobs; `origins` is empty or has one element per job."""
        self._jobs = jobs
        self._now = now
        self._origins = origins
        self._identities = identities(jobs)
        self._payloads = [encode(job.payload, "A job's payload") for job in jobs]
        self.duplicates: list[NewJob] = []
        """The jobs that `write` left out, because they were known."""

    def write(self, db: sqlite3.Connection) -> int:
        """Add the jobs that are not known yet, in order; return how many were added."""
        if not self._jobs:
            return 0
        first = next_job(db)
        lanes, now = find_lanes(db, self._jobs), self._now
        rows = [
            (
                number,
                lanes[job.run, job.kind, job.partition],
                READY if job.not_before is None or job.not_before <= now else DELAYED,
                job.priority,
                host_number(job.host),
                job.max_attempts,
                job.not_before,
                now,
                identity,
            )
            for number, job, identity in zip(count(first), self._jobs, self._identities, strict=False)
        ]
        contents: list[Row] = [
            (number, job.key, job.host, payload)
            for number, job, payload in zip(count(first), self._jobs, self._payloads, strict=False)
        ]
        if self._origins:
            contents = [content + origin for content, origin in zip(contents, self._origins, strict=True)]
        known = add_jobs(db, _SQL["add_job"], rows)
        insert(db, _SQL["add_descended_content" if self._origins else "add_content"], without(known, contents))
        self.duplicates = [self._jobs[number - first] for number in sorted(known)]
        return len(rows) - len(known)


def next_job(db: sqlite3.Connection) -> int:
    """Return the number of the next job; `add_jobs` advances it."""
    (number,) = db.execute(_SQL["next_job"]).fetchone()
    return int(number)


def find_lanes(db: sqlite3.Connection, jobs: Sequence[NewJob] | Sequence[Job]) -> dict[tuple[str, str, str], int]:
    """Return the lane of each run, kind and partition of the jobs; create the lanes that do not exist."""
    return {name: _lane(db, name) for name in {(job.run, job.kind, job.partition) for job in jobs}}


def add_jobs(db: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> AbstractSet[int]:
    """Insert rows of `job` (number, lane, state, priority, host, …) and count them.

    Returns the numbers of the rows left out because a job with the same identity is known.
    """
    known: set[int] = set()
    if insert(db, statement, rows) != len(rows):
        fresh = {number for (number,) in db.execute(_SQL["added_since"], (rows[0][0],))}
        known = {row[0] for row in rows} - fresh
    if len(known) < len(rows):
        db.execute(_SQL["take_numbers"], (len(rows),))
        _count(db, without(known, rows))
    return known


def without(jobs: AbstractSet[int], rows: Sequence[Row]) -> Sequence[Row]:
    """Return the rows that belong to none of these jobs; the first column of a row is its job's number."""
    return [row for row in rows if row[0] not in jobs] if jobs else rows


def insert(db: sqlite3.Connection, statement: str, rows: Sequence[Row]) -> int:
    """Insert rows, `_ROWS_AT_ONCE` per statement (one per row takes 10 % longer); return how many were new."""
    if not rows:
        return 0
    values = f"({', '.join('?' * len(rows[0]))})"
    whole = len(rows) - len(rows) % _ROWS_AT_ONCE
    several = statement.replace(values, ", ".join([values] * _ROWS_AT_ONCE))
    new = 0
    for first in range(0, whole, _ROWS_AT_ONCE):
        group = rows[first : first + _ROWS_AT_ONCE]
        new += db.execute(several, tuple(chain.from_iterable(group))).rowcount
    return new + max(0, db.executemany(statement, rows[whole:]).rowcount)


def _count(db: sqlite3.Connection, rows: Sequence[Row]) -> None:
    moves = Moves()
    # One bound for all lanes of the batch: a head may be too low, and a bound per lane would cost time for every job.
    first, urgent = rows[0][0], min(map(itemgetter(3), rows))
    for (lane, state, host), number in Counter(map(itemgetter(1, 2, 4), rows)).items():
        moves.add(lane, state, number)
        if state == READY:
            moves.ready(lane, urgent, first, host)
    moves.write(db)


def _lane(db: sqlite3.Connection, name: tuple[str, str, str]) -> int:
    found = db.execute(_SQL["find_lane"], name).fetchone()
    if found is not None:
        return int(found[0])
    return db.execute(_SQL["add_lane"], name).lastrowid or 0


def identities(jobs: Sequence[NewJob] | Sequence[Job]) -> list[bytes]:
    """Return the identity of each job, by which it is unique in the queue."""
    digests = {names: _digest_of(names) for names in {(job.run, job.kind) for job in jobs}}
    return [_identity(digests[job.run, job.kind], job.key) for job in jobs]


def identities_of(run: str, names: Sequence[JobName]) -> list[bytes]:
    """Return the identity of each named job of a run."""
    check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")
    digests = {kind: _digest_of((run, kind)) for kind in {name.kind for name in names}}
    return [_identity(digests[name.kind], name.key) for name in names]


def _digest_of(names: tuple[str, str]) -> blake2b:
    return blake2b(msgspec.json.encode(names), digest_size=16)


def _identity(names: blake2b, key: str) -> bytes:
    """Return a digest of run, kind and key, by which a job is unique.

    The index of identities is the largest one, and it is written in random order. With 16 bytes per entry it is several
    times smaller than an index of the texts; a collision of 128 bits is practically impossible.
    """
    digest = names.copy()
    digest.update(key.encode())
    return digest.digest()
