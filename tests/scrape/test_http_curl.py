"""The transport that imitates a browser."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest
from tests.scrape.proxy_servers import ProxyServer, SocksServer, running
from tests.scrape.scripted_site import Answer, ScriptedSite, Silent, SwiftClock

from longshore.errors import ConnectionFailedError, ProcessingError, SettingsError, TimedOutError
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http import curl_transport
from longshore.scrape.http.client import Http
from longshore.scrape.http.robots import RobotsError
from longshore.scrape.proxies import ProxyPool
from longshore.scrape.proxies.proxy_file import Proxy


@pytest.fixture
async def site() -> AsyncIterator[ScriptedSite]:
    async with ScriptedSite().running() as made:
        yield made


@pytest.fixture
async def http() -> AsyncIterator[Http]:
    made = Http(transport="curl", clock=SwiftClock())
    yield made
    await made.close()


async def test_a_page_is_fetched_as_a_browser_would(site: ScriptedSite, http: Http) -> None:
    site.script["/x"] = [Answer("grüße", headers={"X-Mine": "1", "Content-Type": "text/html; charset=utf-8"})]
    seen: list[Exchange] = []
    answer = await http.attempt(watch=seen.append).get(f"{site.url}/x", headers={"X-Ours": "2"})
    assert (answer.status, answer.text, answer.url) == (200, "grüße", f"{site.url}/x")
    assert answer.headers["x-mine"] == "1"
    (asked,) = site.asked("/x")
    assert "Chrome/" in asked.headers["User-Agent"]
    assert asked.headers["X-Ours"] == "2"
    assert "User-Agent" not in seen[0].request_headers, "we do not know what it said"


async def test_bodies_redirects_and_tries_are_as_ever(site: ScriptedSite, http: Http) -> None:
    site.script["/in"] = [Answer(status=303, headers={"Location": "/out"})]
    site.script["/out"] = [Answer(status=503), Answer("at last")]
    assert (await http.request("PUT", f"{site.url}/in", json={"a": 1})).text == "at last"
    assert [(asked.method, asked.body) for asked in site.asked("/in")] == [("PUT", b'{"a":1}')] * 2
    assert [asked.method for asked in site.asked("/out")] == ["GET", "GET"]


async def test_robots_count_for_it_too(site: ScriptedSite, http: Http) -> None:
    site.script["/robots.txt"] = [Answer("User-agent: longshore\nDisallow: /")]
    with pytest.raises(RobotsError):
        await http.get(f"{site.url}/x")


async def test_many_at_once(site: ScriptedSite, http: Http) -> None:
    answers = await asyncio.gather(*(http.get(f"{site.url}/{number}") for number in range(50)))
    assert [answer.status for answer in answers] == [200] * 50


async def test_nobody_there_is_a_failed_connection(http: Http) -> None:
    with pytest.raises(ConnectionFailedError, match="could not be fetched"):
        await http.attempt(robots=False).get("http://127.0.0.1:9/x")


async def test_a_page_that_is_too_large_is_refused(site: ScriptedSite) -> None:
    site.script["/x"] = [Answer(b"x" * 100_000)]
    http = Http(transport="curl", max_bytes=50_000)
    with pytest.raises(ProcessingError, match="larger than 50,000 bytes"):
        await http.get(f"{site.url}/x")
    await http.close()


SOON = timedelta(milliseconds=50)


@pytest.mark.parametrize(
    ("bounds", "beginning", "said"),
    [
        ({"timeout": SOON}, b"", r"did not answer within 0\.05 seconds"),
        ({"first_byte_timeout": SOON}, b"", r"did not begin to answer within 0\.05 seconds"),
        (
            {"first_byte_timeout": SOON * 20, "timeout": SOON * 24},
            b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf",
            r"did not answer within 1\.2 seconds",
        ),
    ],
)
async def test_a_page_that_takes_too_long_times_out(bounds: dict[str, timedelta], beginning: bytes, said: str) -> None:
    http = Http(transport="curl", robots=False, **bounds)  # type: ignore[arg-type]
    async with Silent(beginning) as host:
        with pytest.raises(TimedOutError, match=said):
            await http.get(f"http://{host}/")
        await http.close()


async def test_a_page_without_end_is_given_up_at_once_when_it_is_too_large() -> None:
    http = Http(transport="curl", robots=False, max_bytes=3)
    async with Silent(b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf") as host:
        with pytest.raises(ProcessingError, match="larger than 3 bytes"):
            await http.get(f"http://{host}/")
        await http.close()


@pytest.mark.parametrize("kind", [ProxyServer, SocksServer])
async def test_it_goes_through_proxies(site: ScriptedSite, http: Http, kind: type[ProxyServer]) -> None:
    async with running(proxy := kind("127.0.1.1", ("ann", "hunter2"))):
        await http.get(f"http://localhost:{site.port}/x", proxy=proxy.proxy.url)
        assert {asked.remote for asked in site.requests} == {"127.0.1.1"}
        # The proxy resolves names, not this machine.
        assert all("localhost" in name for name in proxy.names)


async def test_a_proxy_that_is_to_blame_is_blamed(site: ScriptedSite) -> None:
    async with running(strict := ProxyServer("127.0.1.1", ("ann", "hunter2")), fine := ProxyServer("127.0.1.2")):
        dead = Proxy("http://ann:hunter2@127.0.0.1:9")
        wrong = strict.proxy_with(("ann", "wrong"))
        pool = ProxyPool([dead, wrong, fine.proxy])
        http = Http(transport="curl", proxies=pool, robots=False, clock=SwiftClock())
        # Round robin starts at a random proxy: three fetches try every proxy.
        for _ in range(3):
            assert (await http.get(f"{site.url}/x")).status == 200
        await http.close()
    troubles = [[trouble.host for trouble in standing.troubles] for standing in pool.standings()]
    assert troubles == [[""], [""], []], "at every host"
    assert all("hunter2" not in trouble.why for standing in pool.standings() for trouble in standing.troubles)


async def test_only_so_many_proxies_have_connections_at_a_time(
    site: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(curl_transport, "MOST_SESSIONS", 2)
    servers = [ProxyServer(f"127.0.1.{number}") for number in range(1, 5)]
    async with running(*servers):
        http = Http(transport="curl", robots=False)
        for server in servers:
            await http.get(f"{site.url}/x", proxy=server.proxy.url)
        assert len(http._context.transport._sessions) == 2  # type: ignore[attr-defined]
        await http.close()


def test_where_it_is_not_installed_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "curl_cffi", None)
    with pytest.raises(SettingsError, match=r"Fix: pip install '\.\[fingerprint\]' where Longshore was cloned"):
        Http(transport="curl")


async def test_nothing_in_the_environment_leads_past_the_proxy(
    site: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.setenv(name, "*")
    server = ProxyServer("127.0.1.7")
    async with running(server):
        http = Http(transport="curl", proxies=ProxyPool([server.proxy]))
        await http.get(f"{site.url}/x")
        await http.close()
    assert {asked.remote for asked in site.requests} == {"127.0.1.7"}
