"""The reaper: brings back the jobs of silent workers, at intervals and when there is nothing to claim."""

from __future__ import annotations

import random

import structlog

from longshore.errors import PassingQueueError
from longshore.worker.context import WorkerContext
from longshore.worker.loop.outage import Outage

_AT_MOST_EVERY = 1.0
_DOING = "bringing back jobs"

log = structlog.get_logger()


class Reaper:
    """The reaper of one worker. Every worker has one, so recovery depends on no particular process."""

    def __init__(self, context: WorkerContext, outage: Outage) -> None:
        self._interval = max(_AT_MOST_EVERY, context.config.lease.total_seconds() / 3)
        self._queue = context.queue
        self._clock = context.clock
        self._reporter = context.reporter
        self._counters = context.counters
        self._outage = outage
        self._last = float("-inf")

    async def run(self) -> None:
        """Reap about three times a lease, until cancelled; with jitter, so that workers do not all reap at once."""
        while True:
            await self._clock.sleep(self._interval * random.uniform(0.75, 1.25))  # noqa: S311  no secret hangs on it
            await self.reap()

    async def reap(self) -> int:
        """Return how many jobs were brought back. Does nothing within a second of the last call."""
        now = self._clock.monotonic()
        if now - self._last < _AT_MOST_EVERY:
            return 0
        self._last = now
        try:
            reaped = await self._queue.reap()
        except PassingQueueError as error:
            if self._outage.left(_DOING, error) <= 0:
                raise
            # Not a warning: the claimer logs one.
            log.debug(f"Queue unavailable while {_DOING}", error=str(error))
            return 0
        self._outage.over(_DOING)
        if reaped.returned or reaped.failed:
            self._counters.returned += reaped.returned
            self._counters.exhausted += reaped.failed
            self._reporter.reaped(reaped.returned, reaped.failed)
        return reaped.returned
