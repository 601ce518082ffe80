"""Browsers behind a pool of proxies: the next page avoids a proxy that is banned or unreachable (B4, B9, A17)."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Callable
from datetime import timedelta

import pytest
from aiohttp import web
from tests.scrape.proxy_servers import ProxyServer, SocksServer, running
from tests.scrape.proxy_servers import Site as AnySite

from longshore.errors import ConnectionFailedError
from longshore.pacing.contract import HostClosedError
from longshore.scrape.browser import Browsers
from longshore.scrape.browser.browsers import AttemptBrowsers
from longshore.scrape.http.response import StatusError
from longshore.scrape.proxies import ProxyLimits, ProxyPool
from longshore.scrape.proxies.proxy_file import Proxy

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has all of 127.0.0.0/8 without setting up")

Make = Callable[..., Browsers]


class Site(AnySite):
    """A site that counts pages, without the icons that browsers request by themselves."""

    async def _answer(self, request: web.Request) -> web.Response:
        if request.path == "/favicon.ico":
            return web.Response(status=404)
        return await super()._answer(request)


@pytest.fixture
async def servers() -> AsyncIterator[list[ProxyServer]]:
    made = [
        ProxyServer(source="127.0.1.1"),
        ProxyServer(source="127.0.1.2", login=("ann", "secret")),
        SocksServer(source="127.0.1.3"),
    ]
    async with running(*made):
        yield made


async def opened(browsers: AttemptBrowsers, url: str) -> int:
    async with browsers.page() as page:
        return (await page.open(url, check=False)).status


async def test_a_browser_whose_proxy_is_banned_goes_through_another_with_the_next_page(
    make_browsers: Make, servers: list[ProxyServer], kind: str
) -> None:
    pool = ProxyPool([server.proxy for server in servers], limits=ProxyLimits(threshold=1))
    browsers = make_browsers(kind, proxies=pool)
    async with Site(allowed=3).running() as site, Site().running() as elsewhere:
        for path in ("one", "two", "three"):
            assert await opened(browsers, f"{site.url}/{path}") == 200
        # The browser keeps the proxy while it serves.
        (first,) = site.seen
        assert len(browsers.pids) == 1
        assert await opened(browsers, f"{site.url}/four") == 403
        assert await opened(browsers, f"{site.url}/four") == 200
        (second,) = set(site.seen) - {first}
        assert "127.0.0.1" not in site.seen
        resting = {each.proxy for each in pool.standings() for trouble in each.troubles if trouble.state == "resting"}
        assert resting == {str(server.proxy) for server in servers if server.source == first}
        # A proxy banned by one site serves the others, and a proxy that serves is kept.
        assert await opened(browsers, f"{elsewhere.url}/page") == 200
        assert set(elsewhere.seen) == {second}

        # If all are banned, the job returns later, and no request is sent without a proxy.
        for _ in range(20):
            try:
                await opened(browsers.attempt(ends_at=0.0), f"{site.url}/five")
            except HostClosedError:
                break
        else:
            raise AssertionError("it still goes out")
        assert set(site.seen) == {server.source for server in servers}


async def test_a_proxy_that_is_not_there_is_left_and_rests_everywhere(
    make_browsers: Make, servers: list[ProxyServer], kind: str
) -> None:
    dead = [Proxy("http://127.0.0.1:9"), Proxy("socks5://ann:secret@127.0.0.1:9")]
    pool = ProxyPool([*dead, servers[0].proxy], limits=ProxyLimits(threshold=1, rest=timedelta(hours=1)))
    browsers = make_browsers(kind, proxies=pool)
    async with Site().running() as site:
        for _ in range(3):
            try:
                await opened(browsers, f"{site.url}/page")
            except ConnectionFailedError as error:
                assert "proxy" in str(error)
                assert "secret" not in str(error)
        assert await opened(browsers, f"{site.url}/page") == 200
    told = {each.proxy: [trouble.host for trouble in each.troubles] for each in pool.standings() if each.troubles}
    assert all(hosts == [""] for hosts in told.values())
    assert set(told) <= {str(proxy) for proxy in dead}


async def test_one_page_keeps_its_proxy_while_others_move_on(make_browsers: Make, servers: list[ProxyServer]) -> None:
    pool = ProxyPool([server.proxy for server in servers], limits=ProxyLimits(threshold=1))
    browsers = make_browsers(proxies=pool)
    async with Site().running() as site, Site(allowed=0).running() as strict:
        async with browsers.page() as page:
            await page.open(f"{site.url}/login")
            (first,) = site.seen
            async with browsers.page() as other:
                with pytest.raises(StatusError):
                    await other.open(f"{strict.url}/page")
                with pytest.raises(StatusError):
                    await other.open(f"{strict.url}/page")
            await page.open(f"{site.url}/account")
            assert set(site.seen) == {first}
        assert len(strict.turned_away) == 2


async def test_a_proxy_that_moves_is_followed_with_the_next_page(
    make_browsers: Make, servers: list[ProxyServer], kind: str
) -> None:
    """The proxy of a Tor changes when Tor is started again."""
    proxies = [server.proxy.url for server in servers]

    async def current_proxy() -> str:
        return proxies[0]

    browsers = make_browsers(kind, current_proxy=current_proxy)
    async with Site().running() as site:
        assert await opened(browsers, f"{site.url}/one") == 200
        assert await opened(browsers, f"{site.url}/two") == 200
        assert list(site.seen) == ["127.0.1.1"]
        del proxies[0]
        assert await opened(browsers, f"{site.url}/three") == 200
        assert list(site.seen) == ["127.0.1.1", "127.0.1.2"]
