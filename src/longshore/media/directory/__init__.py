"""A queue in a folder: nothing to install, readable by a person, shared by all who can see it."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.media.directory.location import path_of
from longshore.media.directory.queue import DirectoryQueue
from longshore.queue import Queue

__all__ = ["DirectoryQueue", "exists", "open_queue"]


async def exists(url: str) -> bool:
    """Whether the folder is there."""
    return path_of(url).exists()


async def open_queue(url: str, clock: Clock) -> Queue:
    """Open the folder that `dir:///absolute/path` or `dir://relative/path` names.

    Where there is no queue yet, the first call that has something to write makes it.
    Raises `SettingsError` for a URL that names no folder, and a `QueueError` that says why the folder cannot be used.
    """
    return await DirectoryQueue.open(path_of(url), clock)
