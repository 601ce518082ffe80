"""A queue in one SQLite file: the default. Any number of processes of one machine share it; nothing is to be set up."""

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
    """Open the file that `sqlite:///relative/path.db` or `sqlite:////absolute/path.db` names, and make it if need be.

    Raises `SettingsError` for a URL that names no file, and a `QueueError` that says why the file cannot be used.
    """
    return SqliteQueue(await Database.open(path_of(url), prepare), clock)


async def exists(url: str) -> bool:
    """Whether the file is there."""
    return path_of(url).exists()


async def migrate(url: str) -> tuple[int, int]:
    """Make the file the URL names, or bring its tables up to date, as opening it does.

    Returns the schema's version before (0 where there was none) and after.
    """
    path = path_of(url)
    before = schema.version_of(path)
    await (await Database.open(path, prepare)).close()
    return before, schema.VERSION
