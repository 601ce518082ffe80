"""The medium's side of the suite: how to open its queue, advance its clock, and open it in a child process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar

from longshore.queue import Queue


class Harness(ABC):
    """One new, empty queue for one test. All its openings share the same jobs."""

    examples: ClassVar[int] = 60
    """The number of random walks of 50 steps in the comparison with the reference. Lower it if opening is slow."""

    @abstractmethod
    async def open(self) -> Queue:
        """Open the queue once more in this process. The suite closes each queue it opened."""

    @abstractmethod
    async def advance(self, seconds: float) -> None:
        """Advance the clock of this queue's leases and delays, for all its openings."""

    async def set_clock(self, seconds: float) -> bool:  # noqa: ARG002 (for those that override it)
        """Set the time of day of all openings forward (back if negative) without time passing; False if impossible."""
        return False

    def url_for_processes(self) -> str | None:
        """Return the URL with which another process opens this queue, on the real clock; None if that is impossible."""
        return None

    async def back_up(self) -> Callable[[], Awaitable[None]] | None:
        """Copy the stored queue, and return a function that puts the copy back, as a person restores a backup.

        No queue is open during the two calls. None if the medium stores nothing that could be copied.
        """
        return None

    async def close(self) -> None:
        """Delete everything created for the test. Called once, after all openings are closed."""
        return


NewHarness = Callable[[], Harness]
"""A function that returns a harness with a new, empty queue."""
