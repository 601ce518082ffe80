"""The media: one folder each. The URL of the queue picks which."""

from __future__ import annotations

import importlib
from typing import Protocol, cast
from urllib.parse import urlsplit

from longshore.clock import Clock, SystemClock
from longshore.errors import UnknownSchemeError
from longshore.queue import Queue
from longshore.url import mask_url

# scheme -> module with `async def open_queue(url, clock) -> Queue`; imported on use, for a medium may need a library.
_MEDIA = {
    "memory": "longshore.media.memory",
    "sqlite": "longshore.media.sqlite",
    "postgresql": "longshore.media.postgres",
    "postgres": "longshore.media.postgres",
    "dir": "longshore.media.directory",
    "git+https": "longshore.media.git",
    "git+http": "longshore.media.git",
    "git+ssh": "longshore.media.git",
    "git+file": "longshore.media.git",
}


class _Medium(Protocol):
    async def open_queue(self, url: str, clock: Clock) -> Queue: ...


async def open_queue(url: str, *, clock: Clock | None = None) -> Queue:
    """Open the queue a URL names, and make it if it is not there yet.

    Raises `UnknownSchemeError` where no medium answers to the URL, and a `QueueError` where it cannot be opened.
    """
    scheme = urlsplit(url).scheme
    module = _MEDIA.get(scheme)
    if module is None:
        known = ", ".join(f"{name}://" for name in _MEDIA if name != "memory")
        raise UnknownSchemeError(f"No queue answers to '{mask_url(url)}'. A queue URL starts with one of: {known}")
    medium = cast("_Medium", importlib.import_module(module))
    return await medium.open_queue(url, clock or SystemClock())
