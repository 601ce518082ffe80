"""What a medium set aside: files in the place of its own that hold no job. They stop nobody; someone should know."""

from __future__ import annotations

from typing import Protocol

import msgspec

from longshore.queue import Queue


class RejectedFiles(msgspec.Struct, frozen=True):
    """What lies set aside until a person looks at it and removes it."""

    count: int
    where: str
    """The place to look into, in words that fit into a sentence."""


class KeepsRejected(Queue, Protocol):
    """A queue with the trait `sets_aside`."""

    async def set_aside(self) -> RejectedFiles:
        """What was set aside so far and is still there. A job that was damaged is among it, and not in the counts."""
