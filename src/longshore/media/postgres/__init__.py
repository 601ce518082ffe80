"""A queue in a PostgreSQL database, for many machines: `postgresql://user:password@host/database?schema=name`."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.errors import QueueError
from longshore.extensions.record_store import RecordStore
from longshore.queue import Queue

__all__ = ["PostgresQueue", "exists", "migrate", "open_queue", "open_records"]

try:
    from longshore.media.postgres.queue import PostgresQueue
    from longshore.media.postgres.records import PostgresRecords
    from longshore.media.postgres.schema import exists, migrate
except ModuleNotFoundError as error:
    if error.name != "asyncpg":
        raise
    raise QueueError(
        "A queue in PostgreSQL needs the driver asyncpg. Fix: pip install '.[postgres]' where Longshore was cloned"
    ) from error


async def open_queue(url: str, clock: Clock) -> Queue:
    """Open the queue in the schema that the URL names; create or migrate the schema first if needed and permitted."""
    return await PostgresQueue.open(url, clock)


async def open_records(url: str) -> RecordStore:
    """Open the records in the schema that the URL names; create their table first if it does not exist."""
    return await PostgresRecords.open(url)
