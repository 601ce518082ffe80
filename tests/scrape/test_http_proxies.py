"""Fetching through proxies, given with a request or chosen by a pool."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from aiohttp import web
from tests.scrape.proxy_servers import ProxyServer, SocksServer, running
from tests.scrape.scripted_site import Answer, NotingPace, ScriptedSite, SwiftClock

from longshore.errors import ConnectionFailedError, Failure, ValidationError
from longshore.pacing.contract import HostClosedError
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http import transport
from longshore.scrape.http.client import Http, StatusError
from longshore.scrape.proxies import ProxyLimits, ProxyPool, Strategy
from longshore.scrape.proxies.proxy_file import Proxy

LOGIN = ("ann", "hunter2")
DEAD = Proxy("http://ann:hunter2@127.0.0.1:9")


@pytest.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as made:
        yield made


def remotes(site: ScriptedSite) -> list[str]:
    return [asked.remote for asked in site.requests]


@pytest.mark.parametrize("kind", [ProxyServer, SocksServer])
async def test_a_request_goes_through_the_proxy_it_names(site: ScriptedSite, kind: type[ProxyServer]) -> None:
    proxy = kind("127.0.1.1", LOGIN)
    seen: list[Exchange] = []
    pace = NotingPace()
    http = Http(pace=pace)
    async with running(proxy):
        masked = str(proxy.proxy)
        await http.attempt(watch=seen.append).get(f"{site.url}/x", proxy=proxy.proxy.url)
        await http.get(f"{site.url}/y", proxy=proxy.proxy.url)
        await http.close()
    # robots.txt included.
    assert [asked.path for asked in site.requests] == ["/robots.txt", "/x", "/y"]
    assert set(remotes(site)) == {"127.0.1.1"}
    assert "hunter2" not in masked
    assert [exchange.identity for exchange in seen] == [masked]
    assert pace.slots == [(site.host, masked)] * 2, "the first page goes out with robots.txt"


@pytest.mark.parametrize("scheme", ["http", "socks5"])
async def test_what_a_proxy_is_called_shows_no_password(site: ScriptedSite, scheme: str) -> None:
    http = Http(clock=SwiftClock(), robots=False)
    with pytest.raises(ConnectionFailedError) as caught:
        await http.get(f"{site.url}/x", proxy=f"{scheme}://ann:hunter2@127.0.0.1:9")
    await http.close()
    assert "hunter2" not in Failure.of(caught.value).message
    assert site.requests == []


@pytest.mark.parametrize(
    "proxy", ["127.0.0.1:80", "ftp://h:1", "http://h", "http://h:x", "ann:hunter2@h:1", "http://ann:1#hunter2@h:1"]
)
async def test_a_proxy_that_is_none_is_refused_for_good(proxy: str) -> None:
    with pytest.raises(ValidationError, match="The option proxy is not the URL of a proxy") as caught:
        await Http().get("http://127.0.0.1:9/", proxy=proxy)
    assert "hunter2" not in str(caught.value)


async def test_with_a_pool_every_request_goes_through_it(site: ScriptedSite) -> None:
    servers = [ProxyServer("127.0.1.1"), SocksServer("127.0.1.2"), ProxyServer("127.0.1.3")]
    async with running(*servers):
        http = Http(proxies=ProxyPool([server.proxy for server in servers]))
        for number in range(5):
            await http.get(f"{site.url}/{number}")
        await http.close()
    assert Counter(remotes(site)) == {"127.0.1.1": 2, "127.0.1.2": 2, "127.0.1.3": 2}


async def test_a_try_that_failed_is_followed_by_one_through_another_proxy(site: ScriptedSite) -> None:
    def banned(request: web.Request) -> Answer:
        return Answer(status=403) if request.remote == "127.0.1.1" else Answer()

    site.script["/x"] = banned
    servers = [ProxyServer("127.0.1.1"), ProxyServer("127.0.1.2")]
    async with running(*servers):
        pool = ProxyPool([DEAD, *(server.proxy for server in servers)])
        http = Http(proxies=pool, robots=False, clock=SwiftClock())
        # Round robin starts at a random proxy: three fetches try every proxy.
        for _ in range(3):
            assert (await http.get(f"{site.url}/x")).status == 200
        await http.close()
    tried = [(standing.failed > 0, standing.succeeded) for standing in pool.standings()]
    assert tried == [(True, 0), (True, 0), (False, 3)]


async def test_a_page_that_turns_proxies_away_is_worth_another_attempt(site: ScriptedSite) -> None:
    site.script["/x"] = [Answer(status=403)]
    async with running(server := ProxyServer("127.0.1.1")):
        http = Http(proxies=ProxyPool([server.proxy]), robots=False, clock=SwiftClock())
        with pytest.raises(StatusError) as caught:
            await http.get(f"{site.url}/x")
        await http.close()
    assert caught.value.retryable
    assert len(site.requests) == 3


async def test_where_every_proxy_rests_the_job_comes_back_and_the_bare_address_is_not_used(site: ScriptedSite) -> None:
    pool = ProxyPool([DEAD], limits=ProxyLimits(threshold=1, rest=timedelta(hours=1)))
    http = Http(proxies=pool, clock=SwiftClock())
    for _ in range(2):
        with pytest.raises(HostClosedError, match="No proxy is left") as caught:
            await http.get(f"{site.url}/x")
    await http.close()
    assert timedelta(minutes=59) < caught.value.snooze <= timedelta(hours=1)
    assert site.requests == []


async def test_where_a_host_is_closed_to_one_proxy_another_is_taken(site: ScriptedSite) -> None:
    servers = [ProxyServer("127.0.1.1"), ProxyServer("127.0.1.2")]
    async with running(*servers):
        shut = str(servers[0].proxy)
        pace = NotingPace(closed=lambda host, who: HostClosedError(host, 90, "429") if who == shut else None)
        pool = ProxyPool([server.proxy for server in servers])
        http = Http(proxies=pool, pace=pace, robots=False)
        await http.get(f"{site.url}/x")
        pace.closed = lambda host, who: HostClosedError(host, 90, "429")
        with pytest.raises(HostClosedError):
            await http.get(f"{site.url}/x")
        await http.close()
    assert remotes(site) == ["127.0.1.2"]
    assert [standing.failed for standing in pool.standings()] == [0, 0]


async def test_proxies_that_are_not_there_cost_a_job_nothing(site: ScriptedSite) -> None:
    dead = [Proxy(f"{scheme}://127.0.0.1:{port}") for scheme in ("http", "socks5") for port in (7, 9)]
    async with running(server := ProxyServer("127.0.1.1")):
        http = Http(proxies=ProxyPool([*dead, server.proxy]), robots=False, clock=SwiftClock())
        for _ in range(5):
            assert (await http.get(f"{site.url}/x")).status == 200
        await http.close()
    http = Http(proxies=ProxyPool(dead), clock=SwiftClock())
    with pytest.raises(HostClosedError, match="no proxy lets it through"):
        await http.request("POST", f"{site.url}/x")
    await http.close()
    assert remotes(site) == ["127.0.1.1"] * 5


async def test_every_proxy_is_asked_before_a_host_is_closed_to_all(site: ScriptedSite) -> None:
    servers = [ProxyServer(f"127.0.1.{number}") for number in range(1, 11)]
    async with running(*servers):
        open_one = str(servers[7].proxy)
        pace = NotingPace(closed=lambda host, who: HostClosedError(host, 90, "429") if who != open_one else None)
        http = Http(proxies=ProxyPool([server.proxy for server in servers]), pace=pace, robots=False)
        for _ in range(3):
            await http.get(f"{site.url}/x")
        await http.close()
    assert remotes(site) == ["127.0.1.8"] * 3


async def test_a_proxy_that_is_turned_away_is_sent_to_rest_by_the_pool_and_not_slowed_down(site: ScriptedSite) -> None:
    site.script["/x"] = [Answer(status=403)]
    async with running(server := ProxyServer("127.0.1.1")):
        pace = NotingPace()
        http = Http(proxies=ProxyPool([server.proxy]), pace=pace, robots=False, clock=SwiftClock())
        with pytest.raises(StatusError):
            await http.get(f"{site.url}/x")
        await http.close()
    assert [answer[2] for answer in pace.answers] == [None] * 3


async def test_a_session_sticks_to_its_proxy(site: ScriptedSite) -> None:
    servers = [ProxyServer(f"127.0.1.{number}") for number in range(1, 6)]
    async with running(*servers):
        pool = ProxyPool([server.proxy for server in servers], strategy=Strategy.STICKY)
        http = Http(proxies=pool, robots=False)
        for session in ("a", "b", "c", "d", "e", "f") * 3:
            await http.get(f"{site.url}/{session}", session=session)
        await http.close()
    by_session = {path: {asked.remote for asked in site.asked(f"/{path}")} for path in "abcdef"}
    assert all(len(addresses) == 1 for addresses in by_session.values())
    assert len(set.union(*by_session.values())) > 1


async def test_no_proxy_carries_the_cookies_of_another(site: ScriptedSite) -> None:
    site.script["/set"] = [Answer(headers={"Set-Cookie": "who=me"})]
    servers = [ProxyServer(), ProxyServer()]
    one, other = f"http://localhost:{site.port}/set", f"http://localhost:{site.port}/get"
    async with running(*servers):
        first, second = (server.proxy.url for server in servers)
        http = Http(robots=False)
        await http.get(one, proxy=first)
        for proxy in (first, second):
            await http.get(other, proxy=proxy)
        await http.get(other)
        await http.close()
    assert [asked.headers.get("Cookie") for asked in site.asked("/get")] == ["who=me", None, None]


@pytest.mark.parametrize("kind", [ProxyServer, SocksServer])
async def test_only_so_many_proxies_have_connections_at_a_time(
    site: ScriptedSite, monkeypatch: pytest.MonkeyPatch, kind: type[ProxyServer]
) -> None:
    monkeypatch.setattr(transport, "MOST_SESSIONS", 2)
    servers = [kind(f"127.0.1.{number}") for number in range(1, 6)]
    async with running(*servers):
        http = Http(robots=False)
        for server in [*servers, *servers]:
            await http.get(f"{site.url}/x", proxy=server.proxy.url)
        sessions = http._context.transport._sessions  # type: ignore[attr-defined]
        assert list(sessions) == [server.proxy.url for server in servers[-2:]]
        await http.close()
    assert len(site.requests) == 10
