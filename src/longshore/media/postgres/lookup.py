"""Read the payloads of jobs by their names."""

from __future__ import annotations

from collections.abc import Sequence

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
    check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")
    schema = location.quoted_schema
    # `offset 0` and the lateral join keep one search in the index of the names for each job, with any statistics.
    statement = (
        f"select j.payload from unnest($2::text[], $3::bytea[]) with ordinality as n (kind, digest, place) "  # noqa: S608 - the schema is quoted
        f"left join {schema}.family f on f.run = $1::text and f.kind = n.kind "
        f"left join lateral (select payload from {schema}.job where family = f.id and digest = n.digest offset 0) j "
        "on true order by n.place"
    )
    kinds, digests = [name.kind for name in names], [digest(name.key) for name in names]
    rows = await connections.fetch(statement, run, kinds, digests, repeatable=True)
    return [None if row[0] is None else msgspec.json.decode(row[0]) for row in rows]
