"""The schedule poller: checks whether a run of a schedule is due, as long as the worker lives.

Every worker has one; the queue makes sure that only one of them starts each run.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError, QueueError
from longshore.queue import Queue

_AFTER_ERROR = 30.0
_JITTER = 1.0
"""Seconds of jitter, so that not all workers look at the moment a run is due."""

log = structlog.get_logger()


class StartsRuns(Protocol):
    """Starts the runs of schedules when they are due."""

    async def look(self) -> float:
        """Start the runs that are due. Returns the seconds until the next look is worth while."""


MakeStarts = Callable[[Queue, Clock, str], StartsRuns]
"""Makes a `StartsRuns` from the worker's queue, its clock and its incarnation."""


class SchedulePoller:
    """The loop that starts due runs. An error in a schedule never stops the worker."""

    def __init__(self, make: MakeStarts | None, queue: Queue, clock: Clock, incarnation: str) -> None:
        """Without `make`, and on a queue without shared state, there are no schedules."""
        self._clock = clock
        self._starts = make(queue, clock, incarnation) if make is not None and queue.traits.shares_state else None
        self._last_error = ""

    async def run(self) -> None:
        """Look until cancelled."""
        while self._starts is not None:
            try:
                wait = await self._starts.look()
                self._last_error = ""
            except LongshoreError as error:
                wait = _AFTER_ERROR
                # The claimer logs that the queue is out of reach; any other error is logged once.
                if not isinstance(error, QueueError) and str(error) != self._last_error:
                    log.warning(f"Schedules cannot be looked at: {error}")
                self._last_error = str(error)
            except Exception:
                # A source of jobs is user code, and must not affect other runs.
                wait = _AFTER_ERROR
                log.exception("A run of a schedule could not be started")
            await self._clock.sleep(wait + random.uniform(0, _JITTER))  # noqa: S311  no secret hangs on it
