"""A queue in a PostgreSQL database: many machines, one truth. `postgresql://user:password@host/database?schema=name`"""

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
    """Open the queue in the schema the URL names; made or brought up to date first, where the user may do that."""
    return await PostgresQueue.open(url, clock)


async def open_records(url: str) -> RecordStore:
    """Open the records in the schema the URL names; its table is made first where it is not there."""
    return await PostgresRecords.open(url)
