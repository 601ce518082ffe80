"""The reaper: brings back what silent workers held, now and then and whenever there is nothing to claim."""

from __future__ import annotations

import random

import structlog

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.queue import Queue
from longshore.worker.config import WorkerConfig
from longshore.worker.status.log_reporter import LogReporter

_AT_MOST_EVERY = 1.0

log = structlog.get_logger()


class Reaper:
    """Every worker is one, so recovery needs nobody in particular to be alive."""

    def __init__(self, config: WorkerConfig, queue: Queue, clock: Clock, reporter: LogReporter) -> None:
        self._interval = max(_AT_MOST_EVERY, config.lease.total_seconds() / 3)
        self._queue = queue
        self._clock = clock
        self._reporter = reporter
        self._last = float("-inf")

    async def run(self) -> None:
        """Reap about three times a lease, until cancelled. By chance a little sooner or later than other workers."""
        while True:
            await self._clock.sleep(self._interval * random.uniform(0.75, 1.25))  # noqa: S311  no secret hangs on it
            await self.reap()

    async def reap(self) -> int:
        """How many jobs came back. Does nothing where it was done a moment ago."""
        now = self._clock.monotonic()
        if now - self._last < _AT_MOST_EVERY:
            return 0
        self._last = now
        try:
            reaped = await self._queue.reap()
        except QueueUnavailableError as error:
            log.debug("Queue unavailable while bringing back jobs", error=str(error))  # whoever claims says so aloud
            return 0
        if reaped.returned or reaped.failed:
            self._reporter.reaped(reaped.returned, reaped.failed)
        return reaped.returned
