"""A site that bans an address after 50 requests, and 50 proxies: the run finishes (B4)."""

from __future__ import annotations

import asyncio
import random
import sys
from collections.abc import AsyncIterator

import pytest
from tests.scrape.proxy_servers import Fetcher, ProxyServer, Site, SocksServer, running

from longshore.clock import ManualClock
from longshore.scrape.proxies import ProxyChange, ProxyEvent, ProxyPool, Strategy
from longshore.scrape.proxies.health_table import rows

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 without setting up")

PROXIES = 50
ALLOWED = 50
REQUESTS = 1_000
AT_ONCE = 8


@pytest.fixture
async def servers() -> AsyncIterator[list[ProxyServer]]:
    made = [(SocksServer if n % 2 else ProxyServer)(source=f"127.0.1.{n + 1}") for n in range(PROXIES)]
    async with running(*made):
        yield made


async def fetch_all(fetcher: Fetcher, site: Site, count: int) -> list[str]:
    left = iter(range(count))

    async def fetch() -> list[str]:
        return [await fetcher.get(f"{site.url}/{number}", site.host) for number in left]

    return [page for pages in await asyncio.gather(*(fetch() for _ in range(AT_ONCE))) for page in pages]


async def test_the_run_finishes_while_banned_proxies_rest_and_others_serve(servers: list[ProxyServer]) -> None:
    changes: list[ProxyChange] = []
    pool = ProxyPool(
        [server.proxy for server in servers], strategy=Strategy.STICKY, tell=changes.append, clock=ManualClock()
    )
    fetcher = Fetcher(pool)
    async with Site(allowed=ALLOWED).running() as site, Site().running() as elsewhere:
        try:
            pages = await fetch_all(fetcher, site, REQUESTS)

            # Sticky uses one proxy after another until it is banned: 50 requests each.
            assert len(pages) == REQUESTS
            assert "127.0.0.1" not in site.seen
            banned = {address for address, times in site.seen.items() if times == ALLOWED}
            assert len(banned) >= REQUESTS // ALLOWED - 1
            # Ten failures, and the requests in flight at the tenth.
            assert all(site.turned_away[address] < 10 + AT_ONCE for address in banned)

            resting = {change.proxy for change in changes if change.what is ProxyEvent.RESTS}
            worn = {server.proxy for server in servers if site.turned_away[server.source] >= 10}
            assert resting == worn
            assert len(resting) >= REQUESTS // ALLOWED - 1
            told = {row.proxy: row for row in rows([pool.standings()], 0.0)}
            for server in servers:
                if server.proxy in worn:
                    row = told[str(server.proxy)]
                    assert (row.host, row.state) == (site.host, "resting")
                    assert (row.failures, row.why) == (10, "answered 403 Forbidden")
                    assert (row.requests, row.failed) == (
                        site.seen[server.source] + site.turned_away[server.source],
                        site.turned_away[server.source],
                    )

            # A proxy that is banned at one site serves the others.
            for _ in range(3):
                everywhere = await fetch_all(fetcher, elsewhere, 1)
                assert everywhere[0] in {server.source for server in servers}
            turns = [await pool.acquire(elsewhere.host, session=str(n)) for n in range(500)]
            assert worn & {turn.proxy for turn in turns}
        finally:
            await fetcher.close()


async def test_it_finishes_where_28_of_the_addresses_were_banned_before(servers: list[ProxyServer]) -> None:
    changes: list[ProxyChange] = []
    pool = ProxyPool(
        [server.proxy for server in servers],
        tell=changes.append,
        clock=ManualClock(),
        rng=random.Random(6),
    )
    fetcher = Fetcher(pool)
    async with Site(allowed=ALLOWED).running() as site:
        for server in servers[:28]:
            site.seen[server.source] = ALLOWED
        try:
            pages = await fetch_all(fetcher, site, REQUESTS)
        finally:
            await fetcher.close()
    assert len(pages) == REQUESTS
    assert set(pages) == {server.source for server in servers[28:]}
    resting = {change.proxy for change in changes if change.what is ProxyEvent.RESTS}
    assert resting >= {server.proxy for server in servers[:28]}
    assert all(site.turned_away[server.source] < 10 + AT_ONCE for server in servers)
