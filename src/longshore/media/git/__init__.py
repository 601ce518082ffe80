"""A queue on a branch of a git repository: any number of machines share it, and nothing but git is needed."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.media.git.location import cache_folder
from longshore.media.git.queue import GitQueue
from longshore.queue import Queue

__all__ = ["GitQueue", "open_queue"]


async def open_queue(url: str, clock: Clock) -> Queue:
    """Open the queue in the repository that `git+https://`, `git+ssh://`, `git+http://` or `git+file://` names.

    The repository must be there. The first change makes the branches `longshore` and `longshore-1` in it if need be;
    looking makes none, and no other is touched. Raises `SettingsError` for a URL that names no repository, and a
    `QueueError` that says what else is wrong.
    """
    return await GitQueue.open(url, clock, cache_folder())
