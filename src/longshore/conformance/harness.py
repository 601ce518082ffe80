"""What the suite must know of a medium: how to open it, how to move its time, how a child process finds it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import ClassVar

from longshore.queue import Queue


class Harness(ABC):
    """One empty queue, made for one test. Every opening of it shares the same jobs."""

    examples: ClassVar[int] = 60
    """How many walks of 50 steps the comparison with the reference takes. Lower it where opening is expensive."""

    @abstractmethod
    async def open(self) -> Queue:
        """Open the queue once more, in this process. The suite closes what it opens."""

    @abstractmethod
    async def advance(self, seconds: float) -> None:
        """Move the time by which this queue judges leases and delays, in every opening of it."""

    def url_for_processes(self) -> str | None:
        """The URL by which another process opens this queue, on the real clock; None where none can."""
        return None

    async def close(self) -> None:
        """Take away what was made for the test. Called once, after every opening has been closed."""
        return


NewHarness = Callable[[], Harness]
"""Makes a harness around a new, empty queue each time it is called."""
