"""Read the payloads and ids of jobs by their names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from longshore.job import JobName
from longshore.media.postgres.bulk import digest
from longshore.media.postgres.connections import Connections
from longshore.media.postgres.location import DatabaseLocation
from longshore.stored import JsonObject, check_texts


async def payloads(
    connections: Connections, location: DatabaseLocation, run: str, names: Sequence[JobName]
) -> list[JsonObject | None]:
    """Return the payload of each named job of a run, in order; None for a job that is not there."""
    found = await _named("payload", connections, location, run, names)
    return [None if payload is None else msgspec.json.decode(payload) for payload in found]


async def job_ids(
    connections: Connections, location: DatabaseLocation, run: str, names: Sequence[JobName]
) -> list[str | None]:
    """Return the id of each named job of a run, in order; None for a job that is not there."""
    found = await _named("id", connections, location, run, names)
    return [None if number is None else str(number) for number in found]


async def _named(
    column: str, connections: Connections, location: DatabaseLocation, run: str, names: Sequence[JobName]
) -> list[Any]:
    check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")
    schema = location.quoted_schema
    # `offset 0` and the lateral join keep one search in the index of the names for each job, with any statistics.
    statement = (
        f"select j.{column} from unnest($2::text[], $3::bytea[]) with ordinality as n (kind, digest, place) "  # noqa: S608 - the schema is quoted
        f"left join {schema}.family f on f.run = $1::text and f.kind = n.kind "
        f"left join lateral (select {column} from {schema}.job where family = f.id and digest = n.digest offset 0) j "
        "on true order by n.place"
    )
    kinds, digests = [name.kind for name in names], [digest(name.key) for name in names]
    rows = await connections.fetch(statement, run, kinds, digests, repeatable=True)
    return [row[0] for row in rows]
