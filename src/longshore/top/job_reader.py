"""Read all jobs of a selection, a few at a time: there may be millions, and a dashboard must not load the queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from longshore.clock import Clock
from longshore.job import Job
from longshore.queue import Queue, Selection

PAGE = 200
"""Jobs per page. Small, because results may be large and a whole page is held in memory."""
SECONDS = 0.2
"""The time one call reads; it reads at least one page."""


class JobCounter(Protocol):
    """A summary of the jobs that were read; its size must stay small."""

    def add(self, job: Job) -> None:
        """Count a job that was read."""


T = TypeVar("T", bound=JobCounter)


class JobReader(Generic[T]):
    """Reads the jobs of a selection, some with each call, and starts again after the last one."""

    def __init__(self, queue: Queue, selection: Selection, fresh: Callable[[], T], clock: Clock) -> None:
        self._queue = queue
        self._selection = selection
        self._fresh = fresh
        self._clock = clock
        self._complete: T | None = None
        self._partial = fresh()
        self._after = ""

    @property
    def found(self) -> T:
        """The summary of the last complete pass; before the first one is complete, that of the jobs read until now."""
        return self._partial if self._complete is None else self._complete

    @property
    def complete(self) -> bool:
        """Whether all jobs were read at least once."""
        return self._complete is not None

    @property
    def at_start(self) -> bool:
        """Whether the next call begins a new pass."""
        return not self._after

    async def read(self) -> None:
        """Continue reading, for `SECONDS` seconds or to the end of the pass."""
        until = self._clock.monotonic() + SECONDS
        while True:
            page = await self._queue.jobs(self._selection, after=self._after, limit=PAGE)
            for job in page:
                self._partial.add(job)
            if len(page) < PAGE:
                self._complete, self._partial, self._after = self._partial, self._fresh(), ""
                return
            self._after = page[-1].id
            if self._clock.monotonic() >= until:
                return
