"""The number of machines that work on a queue: each takes its share of a fixed rate."""

from __future__ import annotations

import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError
from longshore.extensions.find import find
from longshore.extensions.presence import WorkerRegistry
from longshore.queue import Queue

_READ_SECONDS = 30.0

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
        registry = find(self._queue, WorkerRegistry)
        while registry is not None:
            try:
                machines = {each.info.machine for each in await registry.present_workers()} - {None}
                self._number = max(len(machines), 1)
            except LongshoreError as error:
                log.debug("The number of machines at work could not be read", error=str(error))
            await self._clock.sleep(_READ_SECONDS)
