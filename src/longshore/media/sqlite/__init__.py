"""A queue in one SQLite file: the default. Any number of processes on one machine share it, without any setup."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.media.sqlite import schema
from longshore.media.sqlite.database import Database
from longshore.media.sqlite.location import path_of
from longshore.media.sqlite.queue import SqliteQueue
from longshore.media.sqlite.select import prepare
from longshore.queue import Queue

__all__ = ["SqliteQueue", "exists", "migrate", "open_queue"]


async def open_queue(url: str, clock: Clock) -> Queue:
    """Open the file of `sqlite:///relative/path.db` or `sqlite:////absolute/path.db`; create it if it does not exist.

    Raises `SettingsError` if the URL names no file, and a `QueueError` with the reason if the file cannot be used.
    """
    return SqliteQueue(await Database.open(path_of(url), prepare), clock)


async def exists(url: str) -> bool:
    """Return whether the file exists."""
    return path_of(url).exists()


async def migrate(url: str) -> tuple[int, int]:
    """Create the file that the URL names, or migrate its tables to the newest schema, as opening it does.

    Returns the schema version before (0 if the file did not exist) and after.
    """
    path = path_of(url)
    before = schema.version_of(path)
    await (await Database.open(path, prepare)).close()
    return before, schema.VERSION
