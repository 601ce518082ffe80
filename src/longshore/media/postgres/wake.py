"""Wake-ups: who adds work says so at most every few milliseconds, and who waits for it listens. Polling is the truth.

A notification may be lost (a connection broke), late, or for somebody else. So it only ever ends a nap early; whether
there is work is asked of the tables, unless the notification names what was just submitted and that is what the one who
waits wants. Through a pooler nobody can listen, and naps are short instead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from longshore.clock import Clock
from longshore.job import NewJob
from longshore.lease import Want
from longshore.media.postgres.connections import Session
from longshore.media.postgres.faults import DRIVER_ERRORS
from longshore.media.postgres.location import DatabaseLocation
from longshore.system.first_of import first_of

# NOTIFY takes a lock at commit that all notifying transactions share, so a flood of them would form a queue.
DEBOUNCE = 0.02
LISTENING_NAP = 5.0
"""The longest nap of one who listens (seconds): how late a lost notification can make it."""
SHORTEST_NAP, LONGEST_NAP = 0.01, 0.5
"""Naps of one who cannot listen grow between these."""


WORTH_NAMING = 100
"""Of a large batch the first jobs stand for all: whoever is not named looks into the tables."""
_MOST_NAMES = 20
_names = msgspec.json.Decoder(list[tuple[str, str, str]])


def announce(jobs: Sequence[NewJob]) -> str:
    """What a notification says of jobs that can be claimed at once; nothing where they are of too many kinds to say."""
    names = {(job.run, job.kind, job.partition) for job in jobs[:WORTH_NAMING] if job.not_before is None}
    said = msgspec.json.encode(sorted(names)).decode() if len(names) <= _MOST_NAMES else ""
    # The server takes 8,000 bytes at most.
    return said if len(said.encode()) < 7000 else ""


class Bell:
    """Decides which calls ring: the first after a pause with its own transaction, the last of a burst soon after."""

    def __init__(self, ring: Callable[[], Awaitable[None]]) -> None:
        self._ring = ring
        self._quiet_until = 0.0
        self._later: asyncio.Task[None] | None = None

    def due(self) -> bool:
        """Whether the call about to be made should ring. If not, a ring of its own follows when the pause is over."""
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + DEBOUNCE
            return True
        if self._later is None or self._later.done():
            self._later = asyncio.ensure_future(self._ring_later())
        return False

    async def _ring_later(self) -> None:
        loop = asyncio.get_running_loop()
        # Twice the pause: the call that asked for it has most likely committed by then.
        await asyncio.sleep(max(0.0, self._quiet_until - loop.time()) + DEBOUNCE)
        self._quiet_until = loop.time() + DEBOUNCE
        await self._ring()

    async def close(self) -> None:
        """Ring now what was still to be rung."""
        if self._later is not None and not self._later.done():
            self._later.cancel()
            await asyncio.gather(self._later, return_exceptions=True)
            await self._ring()


class Ear:
    """Listens on a connection of its own, made when somebody first waits and again whenever it was lost."""

    def __init__(self, location: DatabaseLocation, clock: Clock) -> None:
        self._location = location
        self._clock = clock
        self._session: Session | None = None
        self._pooled = False
        self._heard = asyncio.Event()
        self._named: set[tuple[str, str, str]] = set()
        self._opening = asyncio.Lock()
        self._nap = SHORTEST_NAP

    def forget(self) -> None:
        """What was heard until now is answered by the look that follows."""
        self._heard.clear()
        self._named.clear()

    def named(self, want: Want) -> bool:
        """Whether something that is surely wanted was named since the last look. Hosts are not named."""
        return not want.without_hosts and any(want.matches(*name) for name in self._named)

    async def open(self) -> None:
        """Listen, where that can be had; where it cannot, naps are short."""
        async with self._opening:
            if self._pooled or (self._session is not None and not self._session.lost):
                return
            self._session = None
            try:
                session = await Session.open(self._location)
            except DRIVER_ERRORS:
                return  # the look that follows meets the same trouble and says so
            if session.pooled:
                self._pooled = True
                await session.close()
                return
            try:
                await session.connection.add_listener(self._location.channel, self._on_notification)
                session.connection.add_termination_listener(self._on_lost)
            except DRIVER_ERRORS:
                session.connection.terminate()
                return
            self._session = session

    async def nap(self, seconds: float) -> None:
        """Until something is heard, or that many seconds have passed, or it is time to look again anyway."""
        if self._session is not None and not self._session.lost:
            longest = LISTENING_NAP
        else:
            longest = self._nap
            self._nap = min(self._nap * 1.5, LONGEST_NAP)
        await first_of(self._clock.sleep(min(seconds, longest)), self._heard.wait())

    def refresh(self) -> None:
        """There was work: the next naps begin short again."""
        self._nap = SHORTEST_NAP

    def _on_notification(self, *told: Any) -> None:
        payload = told[-1]
        if payload:
            # One who does not understand it looks into the tables, as for every other.
            with suppress(msgspec.DecodeError):
                self._named.update(_names.decode(payload))
        self._heard.set()

    def _on_lost(self, *_: Any) -> None:
        self._heard.set()

    async def close(self) -> None:
        if self._session is not None:
            session, self._session = self._session, None
            session.connection.remove_termination_listener(self._on_lost)
            await session.close()
