"""The health of the server itself, for the health file that `longshore health` reads."""

from __future__ import annotations

import asyncio
import os

from longshore.clock import Clock
from longshore.errors import QueueError
from longshore.observe.health import HEALTHY
from longshore.observe.health_report import HealthReport
from longshore.queue import Queue
from longshore.url import mask_urls

_EVERY_SECONDS = 10.0
_ANSWER_SECONDS = 20.0


class ServerHealth:
    """Asks the queue every few seconds for next to nothing, and remembers whether it answered."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._trouble = ""

    def health(self) -> HealthReport:
        """Return the health of the server."""
        return HealthReport(
            status="unhealthy" if self._trouble else HEALTHY,
            detail=self._trouble,
            process="server",
            pid=os.getpid(),
            ready=not self._trouble,
        )

    async def keep(self) -> None:
        """Ask until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_ANSWER_SECONDS):
                    await self._queue.stats("")
            except QueueError as error:
                self._trouble = f"the queue is out of reach ({mask_urls(str(error))})"
            except TimeoutError:
                self._trouble = f"the queue did not answer within {_ANSWER_SECONDS:g} s"
            else:
                self._trouble = ""
            await self._clock.sleep(_EVERY_SECONDS)
