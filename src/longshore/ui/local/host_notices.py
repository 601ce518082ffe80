"""Notices of `longshore run` that its jobs wait for closed hosts; without them it would seem to hang."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing
from typing import TYPE_CHECKING

from longshore.clock import Clock
from longshore.errors import LongshoreError
from longshore.job import State
from longshore.queue import Count, Queue, Selection
from longshore.system.printable import printable
from longshore.ui.words import duration

if TYPE_CHECKING:
    from longshore.pacing.host_rate import HostRate

EVERY = 5.0
"""Seconds between two reads."""
_JOBS, _HOSTS = 100, 5
"""The most pending jobs, and the most hosts of theirs, that are read."""
_SHORTEST = 5.0
"""Seconds; a closure that ends sooner needs no notice."""


class HostNews:
    """Says once of each closure that jobs wait for it."""

    def __init__(self, queue: Queue, run: str, clock: Clock, say: Callable[[str], None]) -> None:
        self._queue = queue
        self._pending = Selection(run=run, states=frozenset({State.PENDING}))
        self._clock = clock
        self._say = say
        self._look_at = clock.monotonic() + EVERY
        self._reported: dict[str, float] = {}

    async def look(self, count: Count) -> float | None:
        """Return the monotonic time when the first host opens; None unless all pending jobs wait for closed hosts."""
        now = self._clock.monotonic()
        if now < self._look_at or count.claimed or not count.pending:
            return None
        self._look_at = now + EVERY
        jobs = await self._queue.jobs(self._pending, limit=_JOBS)
        hosts = sorted({job.host for job in jobs if job.host})[:_HOSTS]
        try:
            at, rates = await self._rates(hosts)
        except LongshoreError:
            # The file of the rates may belong to another user; the run goes on without the notice.
            return None
        closed = {host: it for host, it in rates.items() if it.closed_until - at > _SHORTEST}
        for host, it in closed.items():
            if self._reported.get(host) != it.closed_until:
                self._reported[host] = it.closed_until
                self._say(printable(f"{host} is closed for {duration(it.closed_until - at)}: {it.why}. Its jobs wait."))
        if not closed or len(closed) < len(hosts) or not all(job.host for job in jobs):
            return None
        return now + min(it.closed_until for it in closed.values()) - at

    async def _rates(self, hosts: list[str]) -> tuple[float, dict[str, HostRate]]:
        from longshore.pacing.choose_store import rate_store_for

        found, at = {}, self._clock.now()
        with closing(rate_store_for(self._queue, self._clock)) as store:
            for host in hosts:
                read = await store.read(host)
                at = read.now
                if read.host_rate is not None:
                    found[host] = read.host_rate
        return at, found
