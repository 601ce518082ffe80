"""Submission by COPY: for many jobs that are most likely all new, at half the cost of the careful way.

COPY cannot pass over a key that is there. So it is tried where the first key is new, in a transaction of its own; when
it meets one that is not, all of it is undone and the caller submits with care.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from hashlib import sha256

import asyncpg

from longshore.media.postgres.columns import NewJobs
from longshore.media.postgres.connections import CALL_TIMEOUT, Session
from longshore.media.postgres.location import Location

WORTH_IT = 500
"""Below so many jobs the further round trips cost more than COPY saves."""

_JOB = ("id", "family", "lane", "priority", "max_attempts", "not_before", "digest", "key", "host", "payload")
_READY = ("family", "lane", "priority", "epoch", "job")
_DELAYED = (*_READY, "due")


async def copy_in(session: Session, location: Location, jobs: NewJobs, *, ring: bool) -> bool:
    """Submit all of it, or nothing: False where a key was known, and where a pooler stands in the way of COPY."""
    if session.pooled:
        return False
    try:
        async with session.connection.transaction():
            return await _copy(session, location, jobs, ring=ring)
    except asyncpg.UniqueViolationError:
        return False


async def _copy(session: Session, location: Location, jobs: NewJobs, *, ring: bool) -> bool:
    digests = [sha256(key.encode()).digest()[:16] for key in jobs.keys]
    reserve = location.call("reserve", "text[]", "text[]", "text[]", "int", "int", "bytea")
    size = len(digests)
    ((families, lanes, ids),) = await session.fetch(reserve, (*jobs[:3], size, jobs.which[0], digests[0]))
    if ids is None:
        return False
    family = [families[which - 1] for which in jobs.which]
    lane = [lanes[which - 1] for which in jobs.which]
    due = [None if at is None else _instant(at) for at in jobs.not_befores]
    copy = session.connection.copy_records_to_table
    records = zip(
        ids, family, lane, jobs.priorities, jobs.limits, due, digests, jobs.keys, jobs.hosts, jobs.payloads, strict=True
    )
    await copy("job", schema_name=location.schema, columns=_JOB, records=records, timeout=CALL_TIMEOUT)
    places = zip(family, lane, jobs.priorities, [1] * size, ids, due, strict=True)
    # Whether a time has come only the database can say: what has one goes through `delayed`, be it long past.
    ready, delayed = [], []
    for place in places:
        if place[-1] is None:
            ready.append(place[:-1])
        else:
            delayed.append(place)
    await copy("ready", schema_name=location.schema, columns=_READY, records=ready, timeout=CALL_TIMEOUT)
    if delayed:
        await copy("delayed", schema_name=location.schema, columns=_DELAYED, records=delayed, timeout=CALL_TIMEOUT)
    added = Counter(lane)
    await session.fetch(location.call("note_added", "int[]", "int[]"), (list(added), list(added.values())))
    if ring:
        await session.fetch("select pg_notify($1, '')", (location.channel,))
    return True


def _instant(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)
