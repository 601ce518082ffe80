"""The number of machines that work on a queue: each takes its share of a fixed rate."""

from __future__ import annotations

import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError
from longshore.extensions.find import find
from longshore.extensions.presence import WorkerRegistry
from longshore.queue import Queue

_FIRST_SECONDS, _READ_SECONDS = 2.0, 30.0
"""How often the number is read: often while machines come and go, because until then the sum of rates is wrong."""

log = structlog.get_logger()


class MachineCount:
    """How many machines work on a queue, read from the worker registry; 1 if the registry names none."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._number = 1

    def __call__(self) -> int:
        """Return the number as of the last read."""
        return self._number

    async def keep(self) -> None:
        """Read the number again and again, until cancelled."""
        pause = _FIRST_SECONDS
        while True:
            before = self._number
            try:
                await self.read()
            except LongshoreError as error:
                log.debug("The number of machines at work could not be read", error=str(error))
            await self._clock.sleep(pause)
            pause = min(2 * pause, _READ_SECONDS) if self._number == before else _FIRST_SECONDS

    async def read(self) -> None:
        """Read the number now."""
        registry = find(self._queue, WorkerRegistry)
        if registry is not None:
            present = [each.info for each in await registry.present_workers()]
            machines = {info.machine for info in present if info.submitting is None} - {None}
            self._number = max(len(machines), 1)
