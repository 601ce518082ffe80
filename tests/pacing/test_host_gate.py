"""The turnstile where the rate holds nobody back (F4): nobody waits, and little is written."""

from __future__ import annotations

import asyncio

from tests.scrape.limited_site import JumpingClock

from longshore.pacing.host_rate import HostRate, RatePolicy
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.store import LocalRateStore


class SlowStore(LocalRateStore):
    """A store on a disk that takes its time."""

    def __init__(self, clock: JumpingClock) -> None:
        super().__init__(clock)
        self._disk = clock
        self.writes = 0
        self.seconds = 0.01

    async def write(self, name: str, version: str, host_rate: HostRate) -> str | None:
        self.writes += 1
        await self._disk.sleep(self.seconds)
        return await super().write(name, version, host_rate)


async def asked_for(
    seconds: float, apart: float, at_once: int, clock: JumpingClock, pace: LearnedLimiter
) -> list[bool]:
    """Ask so many at once, again and again; whether each was let through on the spot."""
    through = []
    end = clock.monotonic() + seconds
    while clock.monotonic() < end:
        asking = [asyncio.ensure_future(pace.slot("a.org", patience=60.0)) for _ in range(at_once)]
        await asyncio.sleep(0)
        through += [each.done() for each in asking]
        await clock.run(clock.monotonic() + apart)
        while not all(each.done() for each in asking):
            await clock.step()
        for _ in asking:
            pace.answered("a.org", "", 200, None, 0.01)
    return through


async def test_a_host_that_takes_more_than_it_is_asked_makes_nobody_wait() -> None:
    clock = JumpingClock()
    store = SlowStore(clock)
    pace = LearnedLimiter(store, clock, policy=RatePolicy(first=5000.0, fastest=5000.0))
    await asked_for(1.0, 0.005, 3, clock, pace)
    before = store.writes
    through = await asked_for(2.0, 0.005, 3, clock, pace)
    assert all(through)
    assert store.writes - before <= 40
    store.seconds = 0.0  # nobody moves the clock any more
    await pace.close()
