"""The learned pace where nothing is exact (F4): answers take longer or shorter, and processes share a slow store."""

from __future__ import annotations

import asyncio
import random

import pytest
from tests.scrape.limited_site import JumpingClock, TokenBucket

from longshore.pacing.host_rate import HostRate
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.store import LocalRateStore, StoredRate

LATENCY, JITTER, STORE_SECONDS = 0.004, 0.002, 0.001
"""What a site and a database on the same machine take; the last two are means."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A few seeds; in the long form, many."""
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(24 if metafunc.config.getoption("--long") else 4))


class NoisyStore(LocalRateStore):
    """A store that takes its time, each time another: others are faster now and then."""

    def __init__(self, clock: JumpingClock, chance: random.Random) -> None:
        super().__init__(clock)
        self._jumping, self._chance = clock, chance

    async def _take_time(self) -> None:
        await self._jumping.sleep(self._chance.expovariate(1 / STORE_SECONDS))

    async def read(self, name: str) -> StoredRate:
        await self._take_time()
        return await super().read(name)

    async def write(self, name: str, version: str, host_rate: HostRate) -> str | None:
        await self._take_time()
        written = await super().write(name, version, host_rate)
        await self._take_time()
        return written


async def ask_for_ever(site: TokenBucket, pace: LearnedLimiter, chance: random.Random) -> None:
    """As the quiet one does, but no two requests take the same time on their way, or back."""
    while True:
        await pace.slot("a.org", patience=1e6)
        there, back = (LATENCY / 2 + chance.expovariate(1 / JITTER) for _ in range(2))
        await site.clock.sleep(there)
        status = site.ask()
        await site.clock.sleep(back)
        pace.answered("a.org", "", status, None, there + back)


@pytest.mark.parametrize("processes", [1, 4])
@pytest.mark.parametrize(("rate", "burst"), [(10, 5), (30, 5)])
async def test_one_process_or_four_find_what_a_site_allows_though_nothing_is_exact(
    processes: int, rate: float, burst: int, seed: int
) -> None:
    chance, clock = random.Random(seed), JumpingClock()
    site, store = TokenBucket(clock, rate, burst), NoisyStore(clock, chance)
    paces = [LearnedLimiter(store, clock) for _ in range(processes)]
    asking = [asyncio.ensure_future(ask_for_ever(site, pace, chance)) for pace in paces for _ in range(16)]
    await clock.run(80)
    for each in asking:
        each.cancel()
    await asyncio.gather(*asking, return_exceptions=True)
    assert site.share(since=20) >= 0.95
    assert site.refused <= max(3, (0.01 if processes == 1 else 0.015) * len(site.answers))
