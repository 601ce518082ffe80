"""Reading jobs through, a little at a time: there may be millions, and whoever watches must be no burden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from longshore.clock import Clock
from longshore.job import Job
from longshore.queue import Queue, Selection

PAGE = 200
"""Small: results may be large, and a page is held in memory whole."""
SECONDS = 0.2
"""For how long one call reads, or a page if that takes longer."""


class JobCounter(Protocol):
    """What is kept of the jobs that were read; it must stay small."""

    def add(self, job: Job) -> None:
        """A job that was read."""


T = TypeVar("T", bound=JobCounter)


class JobReader(Generic[T]):
    """Reads the jobs of a selection through, some with each call, and begins again when it is through."""

    def __init__(self, queue: Queue, selection: Selection, fresh: Callable[[], T], clock: Clock) -> None:
        self._queue = queue
        self._selection = selection
        self._fresh = fresh
        self._clock = clock
        self._whole: T | None = None
        self._so_far = fresh()
        self._after = ""

    @property
    def found(self) -> T:
        """What the last whole reading found; before there is one, what was found so far."""
        return self._so_far if self._whole is None else self._whole

    @property
    def whole(self) -> bool:
        """Whether all of them have been read at least once."""
        return self._whole is not None

    @property
    def between(self) -> bool:
        """Whether the next call begins a reading, rather than going on with one."""
        return not self._after

    async def read(self) -> None:
        """Read on, for a fraction of a second or to the end."""
        until = self._clock.monotonic() + SECONDS
        while True:
            page = await self._queue.jobs(self._selection, after=self._after, limit=PAGE)
            for job in page:
                self._so_far.add(job)
            if len(page) < PAGE:
                self._whole, self._so_far, self._after = self._so_far, self._fresh(), ""
                return
            self._after = page[-1].id
            if self._clock.monotonic() >= until:
                return
