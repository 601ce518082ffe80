"""The scheduler: looks whether a run is due, as long as the worker lives. Every worker has one; the queue sees to it
that one of them starts it."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Protocol

import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError, QueueError
from longshore.queue import Queue

_AFTER_TROUBLE = 30.0
_JITTER = 1.0
"""Seconds by which looks are spread, so that not all workers look at the very instant a run is due."""

log = structlog.get_logger()


class StartsRuns(Protocol):
    """Who knows which runs are due, and starts them."""

    async def look(self) -> float:
        """Start what is due; the seconds until it is worth looking again."""


MakeStarts = Callable[[Queue, Clock, str], StartsRuns]
"""Made by the worker with its queue, its clock and its incarnation."""


class SchedulePoller:
    """Looks again and again. No trouble with a schedule is a reason for a worker to stop."""

    def __init__(self, make: MakeStarts | None, queue: Queue, clock: Clock, incarnation: str) -> None:
        """Without `make`, and on a queue that keeps no notes, there are no schedules."""
        self._clock = clock
        self._starts = make(queue, clock, incarnation) if make is not None and queue.traits.shares_state else None
        self._trouble = ""

    async def run(self) -> None:
        """Look, until cancelled."""
        while self._starts is not None:
            try:
                wait = await self._starts.look()
                self._trouble = ""
            except LongshoreError as error:
                wait = _AFTER_TROUBLE
                # That the queue is out of reach is said by whoever claims; anything else, once.
                if not isinstance(error, QueueError) and str(error) != self._trouble:
                    log.warning(f"Schedules cannot be looked at: {error}")
                self._trouble = str(error)
            except Exception:
                # A source of jobs is somebody's code, and other runs must not suffer from it.
                wait = _AFTER_TROUBLE
                log.exception("A run of a schedule could not be started")
            await self._clock.sleep(wait + random.uniform(0, _JITTER))  # noqa: S311  no secret hangs on it
