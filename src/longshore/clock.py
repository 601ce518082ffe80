"""Injected time: the real clock, and a manual clock for tests that moves only by `advance`."""

from __future__ import annotations

import asyncio
import heapq
import itertools
import time
from typing import Protocol

from longshore.system.boot import boot_id, boottime


class Clock(Protocol):
    """A source of time. Durations use `monotonic`; instants that are stored or shown use `now`.

    Only `now` may be set: a person, or a time server, may move it by hours in either direction.
    """

    @property
    def boot(self) -> str:
        """The identity of the machine's last start: the `monotonic` of processes that agree on it can be compared.

        Empty if it is unknown.
        """

    def now(self) -> float:
        """Return the seconds since 1970, UTC."""

    def monotonic(self) -> float:
        """Return the seconds since an unknown start; never goes back. May stand still while the machine sleeps."""

    def boottime(self) -> float:
        """Return the seconds since an unknown start, with the time that the machine slept; never goes back."""

    async def sleep(self, seconds: float) -> None:
        """Return after `seconds` seconds of this clock."""


class SystemClock:
    """The machine's own clock."""

    # The function itself, not a method around it: a worker asks before every job.
    boottime = staticmethod(boottime)

    @property
    def boot(self) -> str:
        return boot_id()

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


_boots = itertools.count(1)


class ManualClock:
    """A clock for tests: it stands still until `advance` moves it, which wakes the sleepers that are due."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.boot = f"manual {next(_boots)}"
        self._start = start
        self._elapsed = 0.0
        self._asleep = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        return self._start + self._elapsed

    def monotonic(self) -> float:
        return self._elapsed

    def boottime(self) -> float:
        return self._elapsed + self._asleep

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), woken))
        await woken

    def step_wall(self, seconds: float) -> None:
        """Set the time of day forward, or back if negative. No time passes."""
        self._start += seconds

    def suspend(self, seconds: float) -> None:
        """Let the machine sleep: the time of day goes on, processes and `monotonic` stand still."""
        self._asleep += seconds
        self._start += seconds

    def advance(self, seconds: float) -> None:
        """Move the time forward and wake the sleepers that are due."""
        self._elapsed += seconds
        while self._sleepers and self._sleepers[0][0] <= self._elapsed:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)
