"""A simulated site with a rate limit, on a simulated clock that jumps from event to event."""

from __future__ import annotations

import asyncio
import heapq
from dataclasses import dataclass, field

from longshore.clock import ManualClock
from longshore.pacing.limiter import LearnedLimiter


class JumpingClock(ManualClock):
    """A clock that runs all ready tasks and then jumps to the next wake-up time."""

    async def run(self, until: float) -> None:
        """Sleep in simulated time."""
        while (ahead := await self._next()) is not None and ahead <= until:
            self.advance(max(ahead - self.monotonic(), 0.0))
        self.advance(until - self.monotonic())
        await settle()

    async def step(self) -> None:
        """Run the ready tasks, then move to the next wake-up time."""
        ahead = await self._next()
        if ahead is not None:
            self.advance(max(ahead - self.monotonic(), 0.0))
        await settle()

    async def _next(self) -> float | None:
        await settle()
        while self._sleepers and self._sleepers[0][2].done():
            heapq.heappop(self._sleepers)
        return self._sleepers[0][0] if self._sleepers else None


async def settle() -> None:
    """Run all tasks until none can proceed without time passing."""
    for _ in range(12):
        await asyncio.sleep(0)


@dataclass
class TokenBucket:
    """A site that accepts `rate` requests per second, and `burst` at once after a pause."""

    clock: JumpingClock
    rate: float
    burst: float
    answers: list[tuple[float, int]] = field(default_factory=list)
    """The time and status of each response."""

    def __post_init__(self) -> None:
        self._tokens = self.burst
        self._at = self.clock.monotonic()

    def ask(self) -> int:
        """Return the status of the response."""
        now = self.clock.monotonic()
        self._tokens = min(self.burst, self._tokens + (now - self._at) * self.rate)
        self._at = now
        passes = self._tokens >= 1 - 1e-9
        self._tokens -= passes
        status = 200 if passes else 429
        self.answers.append((now, status))
        return status

    def share(self, since: float) -> float:
        """Return the accepted requests since then, as a share of those possible."""
        through = sum(status == 200 and at > since for at, status in self.answers)
        return through / (self.clock.monotonic() - since) / self.rate

    @property
    def refused(self) -> int:
        return sum(status == 429 for _, status in self.answers)


async def ask_for_ever(site: TokenBucket, pace: LearnedLimiter, latency: float) -> None:
    """Fetch pages of a site one after another."""
    while True:
        await pace.slot("a.org", patience=1e6)
        await site.clock.sleep(latency / 2)
        status = site.ask()
        await site.clock.sleep(latency / 2)
        pace.answered("a.org", "", status, None, latency)
