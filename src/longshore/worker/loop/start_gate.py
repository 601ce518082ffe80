"""A start gate: a condition outside of the worker that must hold before it may begin a job.

While the gate is closed, attempts under way are finished and no other begins; ready jobs are given back, so that other
workers may claim them. It opens by itself when the condition holds again.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Protocol

from longshore.clock import Clock
from longshore.worker.loop.event_responder import EventResponder


class Gate(Protocol):
    """A condition that must hold for a job to begin."""

    @property
    def every(self) -> timedelta:
        """How long an answer counts before the gate is asked again."""

    async def closed(self) -> str | None:
        """Return why no job may begin now, in words a person understands; None if jobs may. Answers within seconds."""


class Gatekeeper:
    """Asks the gate before the first job, and again at each interval. Without a gate, jobs may always begin."""

    def __init__(self, gate: Gate | None, clock: Clock, events: EventResponder) -> None:
        self._gate = gate
        self._clock = clock
        self._events = events
        self._paused = False
        self.open = asyncio.Event()
        """Set while jobs may begin. Not before the first answer."""
        if gate is None:
            self.open.set()

    async def run(self) -> None:
        """Ask the gate until cancelled."""
        while self._gate is not None:
            reason = await self._gate.closed()
            if reason is None:
                self.open.set()
                if self._paused:
                    self._events.resumed()
            else:
                self.open.clear()
                if not self._paused:
                    self._events.paused(reason)
            self._paused = reason is not None
            await self._clock.sleep(self._gate.every.total_seconds())
