"""Submission by COPY: for many jobs that are probably all new, at half the cost of the function `submit`.

COPY cannot skip a key that exists. So it is tried only if the first key is new, in a transaction of its own; if it
meets a known key, the transaction is rolled back and the caller uses `submit`. Rows are encoded while the server
processes the rows before them.
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

MIN_COPY_JOBS = 500
"""With fewer jobs, the additional round trips cost more than COPY saves."""

_JOB = ("id", "family", "lane", "priority", "max_attempts", "not_before", "digest", "key", "host", "payload")
_READY = ("family", "lane", "priority", "epoch", "job", "host")
_DELAYED = (*_READY, "due")


async def copy_in(session: Session, location: DatabaseLocation, jobs: Sequence[NewJob], *, notify: bool) -> bool:
    """Submit all jobs, or none: return False if a key was known, or if a pooler prevents COPY."""
    if session.pooled:
        return False
    try:
        async with session.connection.transaction():
            return await _copy(session, location, jobs, notify=notify)
    except asyncpg.UniqueViolationError:
        return False


async def _copy(session: Session, location: DatabaseLocation, jobs: Sequence[NewJob], *, notify: bool) -> bool:
    named = Lanes()
    which = [named.number(job) for job in jobs]
    reserve = location.call("reserve", "text[]", "text[]", "text[]", "int", "int", "bytea")
    arguments = (*named.columns, len(jobs), which[0], digest(jobs[0].key))
    ((families, lanes, ids),) = await session.fetch(reserve, arguments)
    if ids is None:
        return False
    places = [(families[number - 1], lanes[number - 1]) for number in which]

    async def copy(table: str, columns: tuple[str, ...], records: Iterator[tuple[Any, ...]]) -> None:
        await session.connection.copy_records_to_table(
            table, schema_name=location.schema, columns=columns, records=records, timeout=CALL_TIMEOUT
        )

    await copy("job", _JOB, _job_rows(jobs, ids, places))
    # Only the database's clock decides whether a job is due: every job with a time goes to `delayed`, even a past one.
    ready = (
        (family, lane, job.priority, 1, number, host_number(job.host))
        for job, number, (family, lane) in zip(jobs, ids, places, strict=True)
        if job.not_before is None
    )
    await copy("ready", _READY, ready)
    if any(job.not_before is not None for job in jobs):
        delayed = (
            (family, lane, job.priority, 1, number, host_number(job.host), _instant(job.not_before))
            for job, number, (family, lane) in zip(jobs, ids, places, strict=True)
            if job.not_before is not None
        )
        await copy("delayed", _DELAYED, delayed)
    added = Counter(lane for _, lane in places)
    await session.fetch(location.call("note_added", "int[]", "int[]"), (list(added), list(added.values())))
    if notify:
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
            digest(key),
            key,
            job.host,
            encode(job.payload, "A job's payload").decode(),
        )


def digest(key: str) -> bytes:
    """Return the bytes by which a key is unique among the jobs of its run and kind."""
    return sha256(key.encode()).digest()[:16]


def _instant(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
