"""The pace of a worker's requests: learned, or as the settings say, and shared by all who share its queue."""

from __future__ import annotations

import asyncio

import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError
from longshore.pacing.host_rate import RatePolicy
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.store_shared import FORGET_SECONDS, MachineCount, MachineRateStore, rate_store_for
from longshore.queue import Queue
from longshore.worker.kit.config import KitConfig

log = structlog.get_logger()


class WorkerLimiter(LearnedLimiter):
    """A learned pace with the shelf it lies on. It keeps up with settings that change."""

    def __init__(self, config: KitConfig, queue: Queue, clock: Clock) -> None:
        self._own_shelf = rate_store_for(queue, clock)
        self._machines_at_work = MachineCount(queue, clock)
        # What all share through the queue is one for all machines already.
        alone = isinstance(self._own_shelf, MachineRateStore)
        super().__init__(
            self._own_shelf,
            clock,
            policy=policy_of(config),
            machines=self._machines_at_work if alone else lambda: 1,
        )
        self._counts_machines = alone

    def change(self, config: KitConfig) -> None:
        """From now on as this says."""
        self._policy = policy_of(config)

    async def keep(self) -> None:
        """Do what has to be done now and then, until cancelled."""
        async with asyncio.TaskGroup() as both:
            both.create_task(self._forget())
            if self._counts_machines:
                both.create_task(self._machines_at_work.keep())

    async def _forget(self) -> None:
        """Hosts that were asked once and never refused are not remembered for ever."""
        while True:
            try:
                if gone := await self._own_shelf.forget():
                    log.debug("Hosts were forgotten", hosts=gone)
            except LongshoreError as error:
                log.debug("Which hosts may be forgotten could not be read", error=str(error))
            await self._clock.sleep(FORGET_SECONDS)

    async def close(self) -> None:
        await super().close()
        if isinstance(self._own_shelf, MachineRateStore):
            self._own_shelf.close()


def policy_of(config: KitConfig) -> RatePolicy:
    """What the settings say about the pace of hosts."""
    delay = config.host_delay
    return RatePolicy(
        first=min(config.host_first_rate, config.host_rate),
        slowest=min(RatePolicy().slowest, config.host_rate),
        fastest=config.host_rate,
        delay=(delay.low, delay.high) if delay.high else None,
    )
