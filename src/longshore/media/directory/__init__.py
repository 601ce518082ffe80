"""A queue in a folder: nothing to install, readable by people, shared by every process that can reach the folder."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.media.directory.location import path_of
from longshore.media.directory.queue import DirectoryQueue
from longshore.queue import Queue

__all__ = ["DirectoryQueue", "exists", "open_queue"]


async def exists(url: str) -> bool:
    """Return whether the folder exists."""
    return path_of(url).exists()


async def open_queue(url: str, clock: Clock) -> Queue:
    """Open the folder that `dir:///absolute/path` or `dir://relative/path` names.

    If the folder is not a queue yet, the first call that writes creates it.
    Raises `SettingsError` if the URL names no folder, and a `QueueError` with the reason if the folder cannot be used.
    """
    return await DirectoryQueue.open(path_of(url), clock)
