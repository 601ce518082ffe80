"""Wake-ups: a process that adds jobs sends NOTIFY, at most every few milliseconds; a process that waits listens.

A notification may be lost (a connection broke), late, or about jobs that the waiting process does not want. So it only
ends a sleep early: whether there is work is read from the tables, unless the notification names lanes that the waiting
process wants. LISTEN does not work behind a pooler; sleeps are short there instead.
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
from longshore.media.postgres.connections import Session, terminated_on_failure
from longshore.media.postgres.faults import DRIVER_ERRORS
from longshore.media.postgres.location import DatabaseLocation
from longshore.system.first_of import first_of

# NOTIFY takes a lock at commit that all notifying transactions share, so they would queue for it if there were many.
DEBOUNCE = 0.02
LISTENING_SLEEP = 5.0
"""The longest sleep of a process that listens (seconds): the delay if a notification is lost."""
SHORTEST_SLEEP, LONGEST_SLEEP = 0.01, 0.5
"""Sleeps of a process that cannot listen grow from the first to the second (seconds)."""


NAMED_JOBS = 100
"""A notification names the lanes of the first jobs of a batch; processes that want other lanes read the tables."""
_MOST_NAMES = 20
_names = msgspec.json.Decoder(list[tuple[str, str, str]])


def announce(jobs: Sequence[NewJob]) -> str:
    """Return the payload of a notification: the lanes of jobs that are claimable now; empty if there are too many."""
    names = {(job.run, job.kind, job.partition) for job in jobs[:NAMED_JOBS] if job.not_before is None}
    payload = msgspec.json.encode(sorted(names)).decode() if len(names) <= _MOST_NAMES else ""
    # The server accepts at most 8,000 bytes.
    return payload if len(payload.encode()) < 7000 else ""


class NotificationSender:
    """Decides which calls notify: the first after a pause in its own transaction, the last of a burst soon after."""

    def __init__(self, notify: Callable[[], Awaitable[None]]) -> None:
        self._notify = notify
        self._quiet_until = 0.0
        self._later: asyncio.Task[None] | None = None

    def due(self) -> bool:
        """Return whether the next call should notify. If not, a separate notification follows after the pause."""
        now = asyncio.get_running_loop().time()
        if now >= self._quiet_until:
            self._quiet_until = now + DEBOUNCE
            return True
        if self._later is None or self._later.done():
            self._later = asyncio.ensure_future(self._notify_later())
        return False

    async def _notify_later(self) -> None:
        loop = asyncio.get_running_loop()
        # One pause more: by then the call that asked for the notification has very likely committed.
        await asyncio.sleep(max(0.0, self._quiet_until - loop.time()) + DEBOUNCE)
        self._quiet_until = loop.time() + DEBOUNCE
        await self._notify()

    async def close(self) -> None:
        """Send the notification that is still outstanding, if any."""
        if self._later is not None and not self._later.done():
            self._later.cancel()
            await asyncio.gather(self._later, return_exceptions=True)
            await self._notify()


class NotificationListener:
    """Listens on a separate connection, which is opened by the first wait and again after it was lost."""

    def __init__(self, location: DatabaseLocation, clock: Clock) -> None:
        self._location = location
        self._clock = clock
        self._session: Session | None = None
        self._pooled = False
        self._notified = asyncio.Event()
        self._named: set[tuple[str, str, str]] = set()
        self._opening = asyncio.Lock()
        self._interval = SHORTEST_SLEEP

    def clear(self) -> None:
        """Forget the received notifications; call it just before reading the tables."""
        self._notified.clear()
        self._named.clear()

    def named(self, want: Want) -> bool:
        """Return whether a wanted lane was named since `clear`; False if hosts are excluded, as hosts are not named."""
        return not want.without_hosts and any(want.matches(*name) for name in self._named)

    async def open(self) -> None:
        """Listen if possible; otherwise sleeps are short."""
        async with self._opening:
            if self._pooled or (self._session is not None and not self._session.lost):
                return
            self._session = None
            try:
                session = await Session.open(self._location)
            except DRIVER_ERRORS:
                return  # the caller's next query meets the same error and raises it
            if session.pooled:
                self._pooled = True
                await session.close()
                return
            try:
                with terminated_on_failure(session.connection):
                    await session.connection.add_listener(self._location.channel, self._on_notification)
                    session.connection.add_termination_listener(self._on_lost)
            except DRIVER_ERRORS:
                return
            self._session = session

    async def sleep(self, seconds: float) -> None:
        """Sleep until a notification, for at most `seconds` seconds, or until the next regular poll of the tables."""
        if self._session is not None and not self._session.lost:
            longest = LISTENING_SLEEP
        else:
            longest = self._interval
            self._interval = min(self._interval * 1.5, LONGEST_SLEEP)
        await first_of(self._clock.sleep(min(seconds, longest)), self._notified.wait())

    def reset_interval(self) -> None:
        """Begin with short sleeps again, after work was found."""
        self._interval = SHORTEST_SLEEP

    def _on_notification(self, *arguments: Any) -> None:
        payload = arguments[-1]
        if payload:
            # A payload of an unknown format still wakes the process, which then reads the tables.
            with suppress(msgspec.DecodeError):
                self._named.update(_names.decode(payload))
        self._notified.set()

    def _on_lost(self, *_: Any) -> None:
        self._notified.set()

    async def close(self) -> None:
        # A session that is just being opened is closed too.
        async with self._opening:
            session, self._session = self._session, None
        if session is not None:
            session.connection.remove_termination_listener(self._on_lost)
            await session.close()
