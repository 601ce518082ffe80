"""The limiter of a worker, with the store of its queue."""

from __future__ import annotations

import asyncio

import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError
from longshore.pacing.choose_store import rate_store_for
from longshore.pacing.host_rate import RatePolicy
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.machine_count import MachineCount
from longshore.pacing.store_shared import FORGET_SECONDS
from longshore.queue import Queue

log = structlog.get_logger()


class WorkerLimiter:
    """A worker's `limiter`, which shares its rates with all workers of the queue, and the upkeep of its store."""

    def __init__(self, policy: RatePolicy, queue: Queue, clock: Clock) -> None:
        self._clock = clock
        self._store = rate_store_for(queue, clock)
        self._machines = MachineCount(queue, clock) if self._store.per_machine else None
        self.limiter = LearnedLimiter(self._store, clock, policy=policy, machines=self._machines or (lambda: 1))

    async def keep(self) -> None:
        """Forget old hosts and count the machines, again and again until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._forget())
            if self._machines is not None:
                tasks.create_task(self._machines.keep())

    async def _forget(self) -> None:
        """Delete the rates of hosts that were asked a while ago and never refused: a broad crawl has millions."""
        while True:
            try:
                if deleted := await self._store.forget():
                    log.debug("Hosts were forgotten", hosts=deleted)
            except LongshoreError as error:
                log.debug("The hosts to forget could not be read", error=str(error))
            await self._clock.sleep(FORGET_SECONDS)

    async def close(self) -> None:
        """Write what was learned last, and close the store."""
        await self.limiter.close()
        self._store.close()
