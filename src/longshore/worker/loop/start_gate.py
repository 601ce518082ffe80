"""A gate: what must hold outside of the worker before it may begin anything.

While it is closed, what is under way is finished and nothing else begins; what lies ready is given back, so that a
worker elsewhere may take it. It opens again by itself.
"""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Protocol

from longshore.clock import Clock


class Gate(Protocol):
    """Something that must hold for work to begin."""

    @property
    def every(self) -> timedelta:
        """How long an answer counts before it is asked again."""

    async def closed(self) -> str | None:
        """Why nothing may begin now, in words a person understands; None where it may. It ends within seconds."""


class GateEvents(Protocol):
    """Who wants to know when the gate closes and opens."""

    def paused(self, reason: str) -> None:
        """The gate has closed, for this reason."""

    def resumed(self) -> None:
        """The gate is open again."""


class Gatekeeper:
    """Asks the gate before the first job and at every interval from then on. Without a gate the way is always free."""

    def __init__(self, gate: Gate | None, clock: Clock, listener: GateEvents) -> None:
        self._gate = gate
        self._clock = clock
        self._listener = listener
        self._paused = False
        self.open = asyncio.Event()
        """Set while work may begin. Not before the first answer."""
        if gate is None:
            self.open.set()

    async def run(self) -> None:
        """Ask, as long as the worker lives."""
        while self._gate is not None:
            reason = await self._gate.closed()
            if reason is None:
                self.open.set()
                if self._paused:
                    self._listener.resumed()
            else:
                self.open.clear()
                if not self._paused:
                    self._listener.paused(reason)
            self._paused = reason is not None
            await self._clock.sleep(self._gate.every.total_seconds())
