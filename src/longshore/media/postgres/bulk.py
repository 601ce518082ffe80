"""Submission by COPY: for many jobs that are most likely all new, at half the cost of the careful way.

COPY cannot pass over a key that is there. So it is tried where the first key is new, in a transaction of its own; when
it meets one that is not, all of it is undone and the caller submits with care. Rows are made while the server is busy
with those before them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

import asyncpg

from longshore.job import NewJob
from longshore.media.postgres.columns import Lanes, host_number
from longshore.media.postgres.connections import CALL_TIMEOUT, Session
from longshore.media.postgres.location import DatabaseLocation
from longshore.stored import encode

WORTH_IT = 500
"""Below so many jobs the further round trips cost more than COPY saves."""

_JOB = ("id", "family", "lane", "priority", "max_attempts", "not_before", "digest", "key", "host", "payload")
_READY = ("family", "lane", "priority", "epoch", "job", "host")
_DELAYED = (*_READY, "due")


async def copy_in(session: Session, location: DatabaseLocation, jobs: Sequence[NewJob], *, ring: bool) -> bool:
    """Submit all of it, or nothing: False where a key was known, and where a pooler stands in the way of COPY."""
    if session.pooled:
        return False
    try:
        async with session.connection.transaction():
            return await _copy(session, location, jobs, ring=ring)
    except asyncpg.UniqueViolationError:
        return False


async def _copy(session: Session, location: DatabaseLocation, jobs: Sequence[NewJob], *, ring: bool) -> bool:
    named = Lanes()
    which = [named.number(job) for job in jobs]
    reserve = location.call("reserve", "text[]", "text[]", "text[]", "int", "int", "bytea")
    arguments = (*named.columns, len(jobs), which[0], _digest(jobs[0].key))
    ((families, lanes, ids),) = await session.fetch(reserve, arguments)
    if ids is None:
        return False
    places = [(families[number - 1], lanes[number - 1]) for number in which]

    async def copy(table: str, columns: tuple[str, ...], records: Iterator[tuple[Any, ...]]) -> None:
        await session.connection.copy_records_to_table(
            table, schema_name=location.schema, columns=columns, records=records, timeout=CALL_TIMEOUT
        )

    await copy("job", _JOB, _job_rows(jobs, ids, places))
    # Whether a time has come only the database can say: what has one goes through `delayed`, be it long past.
    waiting = (
        (family, lane, job.priority, 1, number, host_number(job.host))
        for job, number, (family, lane) in zip(jobs, ids, places, strict=True)
        if job.not_before is None
    )
    await copy("ready", _READY, waiting)
    if any(job.not_before is not None for job in jobs):
        delayed = (
            (family, lane, job.priority, 1, number, host_number(job.host), _instant(job.not_before))
            for job, number, (family, lane) in zip(jobs, ids, places, strict=True)
            if job.not_before is not None
        )
        await copy("delayed", _DELAYED, delayed)
    added = Counter(lane for _, lane in places)
    await session.fetch(location.call("note_added", "int[]", "int[]"), (list(added), list(added.values())))
    if ring:
        await session.fetch("select pg_notify($1, '')", (location.channel,))
    return True


def _job_rows(
    jobs: Sequence[NewJob], ids: list[int], places: list[tuple[int, int]]
) -> Iterator[tuple[int, int, int, int, int, datetime | None, bytes, str, str, str]]:
    for job, number, (family, lane) in zip(jobs, ids, places, strict=True):
        key = job.key
        due = None if job.not_before is None else _instant(job.not_before)
        yield (
            number,
            family,
            lane,
            job.priority,
            job.max_attempts,
            due,
            _digest(key),
            key,
            job.host,
            encode(job.payload, "A job's payload").decode(),
        )


def _digest(key: str) -> bytes:
    return sha256(key.encode()).digest()[:16]


def _instant(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
