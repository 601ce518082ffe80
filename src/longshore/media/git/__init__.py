"""A queue on a branch of a git repository: any number of machines can share it, and it needs nothing but git."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.media.git.location import cache_folder
from longshore.media.git.queue import GitQueue
from longshore.queue import Queue

__all__ = ["GitQueue", "open_queue"]


async def open_queue(url: str, clock: Clock) -> Queue:
    """Open the queue in the repository that `git+https://`, `git+ssh://`, `git+http://` or `git+file://` names.

    The repository must exist. The first change creates the branches `longshore` and `longshore-1` in it if they do not
    exist; calls that only read create nothing, and other branches are never touched. Raises `SettingsError` if the URL
    names no repository, and a `QueueError` with the reason if the repository cannot be used.
    """
    return await GitQueue.open(url, clock, cache_folder())
