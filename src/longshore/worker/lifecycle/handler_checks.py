"""Repeats the handlers' own health checks while the worker runs: the trouble may come later."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from longshore.clock import Clock
from longshore.handlers.class_handler import ClassInstance
from longshore.worker.status.blockage import Blockage

_EVERY_SECONDS = 60.0
_SHARE = 20
"""Checks take at most one part in this of the time: one may log in somewhere, or start a browser."""

log = structlog.get_logger()


class HandlerChecks:
    """The health checks of the `Worker` classes of one worker."""

    def __init__(self, instances: Sequence[ClassInstance], blockage: Blockage, clock: Clock) -> None:
        self._instances = [each for each in instances if each.has_check]
        self._blockage = blockage
        self._clock = clock

    async def run(self) -> None:
        """Check until cancelled. The first check was made before the worker started."""
        wait = _EVERY_SECONDS
        while self._instances:
            await self._clock.sleep(wait)
            began = self._clock.monotonic()
            failed = [
                each.worker.__name__ for each in self._instances if not await asyncio.to_thread(each.still_healthy)
            ]
            trouble = f"the health check of {', '.join(failed)} failed" if failed else ""
            if trouble and not self._blockage.failed_check:
                log.warning(f"Not healthy: {trouble}")
            self._blockage.failed_check = trouble
            wait = max(_EVERY_SECONDS, _SHARE * (self._clock.monotonic() - began))


async def _checked(instance: ClassInstance) -> bool:
    return await asyncio.to_thread(instance.still_healthy)
