"""The blame for errors that aiohttp raises with real proxies."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator
from unittest.mock import Mock

import aiohttp
import pytest
from tests.scrape.proxy_servers import ProxyServer, Site, SocksServer, running

from longshore.errors import ConnectionFailedError, ProcessingError, TimedOutError, ValidationError
from longshore.scrape.http.client import StatusError
from longshore.scrape.proxies import Blame, blame_of
from longshore.scrape.proxies.blame import blame_for_status, in_words, status_of
from longshore.scrape.proxies.connection import connector_for, request_proxy
from longshore.scrape.proxies.proxy_file import Proxy

LOGIN = ("ann", "geheim")
WRONG = ("ann", "hunter2")


def nobody(scheme: str) -> Proxy:
    """A proxy at a port without a listener: it was free a moment ago."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return Proxy(f"{scheme}://ann:geheim@127.0.0.1:{taken.getsockname()[1]}")


PATIENT = aiohttp.ClientTimeout(total=20)


async def fetch(proxy: Proxy, url: str, timeout: aiohttp.ClientTimeout = PATIENT) -> str:
    async with (
        aiohttp.ClientSession(connector=connector_for(proxy), timeout=timeout, raise_for_status=True) as session,
        session.get(url, proxy=request_proxy(proxy)) as answer,
    ):
        return await answer.text()


async def fault(proxy: Proxy, url: str, timeout: aiohttp.ClientTimeout = PATIENT) -> Exception:
    with pytest.raises(Exception) as caught:
        await fetch(proxy, url, timeout)
    assert "geheim" not in in_words(caught.value)
    assert "hunter2" not in in_words(caught.value)
    return caught.value


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site().running() as made:
        yield made


@pytest.mark.parametrize("kind", [ProxyServer, SocksServer])
@pytest.mark.parametrize("login", [None, LOGIN])
async def test_a_page_comes_through(site: Site, kind: type[ProxyServer], login: tuple[str, str] | None) -> None:
    server = kind(login=login)
    async with running(server):
        assert await fetch(server.proxy, f"{site.url}/page") == "127.0.0.1"


async def test_a_socks_proxy_resolves_names_itself_whichever_way_it_is_written(site: Site) -> None:
    server = SocksServer()
    async with running(server):
        for scheme in ("socks5://", "socks5h://", "SOCKS5://"):
            proxy = Proxy(server.proxy.url.replace("socks5://", scheme))
            await fetch(proxy, site.url.replace("127.0.0.1", "localhost") + "/page")
    assert {name.partition(":")[0] for name in server.names} == {"localhost"}


@pytest.mark.parametrize("scheme", ["http", "socks5", "socks4"])
@pytest.mark.parametrize("page", ["http://127.0.0.1:9/", "https://127.0.0.1:9/"])
async def test_a_proxy_that_is_not_there_is_to_blame_itself(scheme: str, page: str) -> None:
    error = await fault(nobody(scheme), page)
    assert (blame_of(error), in_words(error)) == (Blame.PROXY, "the proxy cannot be reached: Connection refused")


@pytest.mark.parametrize("kind", [ProxyServer, SocksServer])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_proxy_that_refuses_the_login_is_to_blame_itself(kind: type[ProxyServer], scheme: str) -> None:
    server = kind(login=LOGIN)
    async with running(server):
        error = await fault(server.proxy_with(WRONG), f"{scheme}://127.0.0.1:9/")
        assert blame_of(error) is Blame.PROXY


@pytest.mark.parametrize("kind", [ProxyServer, SocksServer])
@pytest.mark.parametrize("scheme", ["http", "https"])
async def test_a_site_the_proxy_cannot_reach_counts_for_the_site(kind: type[ProxyServer], scheme: str) -> None:
    server = kind()
    async with running(server):
        error = await fault(server.proxy, f"{scheme}://127.0.0.1:9/")
        assert blame_of(error) is Blame.SITE


class Silent(ProxyServer):
    """Accept connections and send nothing."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.Event().wait()


class Rude(ProxyServer):
    """Read the request and close the connection."""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65536)


async def test_a_proxy_that_is_silent_is_to_blame_itself_where_it_should_make_a_tunnel() -> None:
    server = Silent()
    async with running(server):
        timeout = aiohttp.ClientTimeout(total=20, sock_connect=0.05)
        socks = await fault(Proxy(server.proxy.url.replace("http", "socks5")), "http://127.0.0.1:9/", timeout)
        assert blame_of(socks) is Blame.PROXY
        # The proxy was reached; whether it or the site does not respond is unknown.
        plain = await fault(server.proxy, "http://127.0.0.1:9/", aiohttp.ClientTimeout(total=0.05))
        assert (blame_of(plain), in_words(plain)) == (Blame.SITE, "no answer in time")


async def test_a_proxy_that_hangs_up_is_to_blame_itself_where_it_should_make_a_tunnel() -> None:
    server = Rude()
    async with running(server):
        socks = Proxy(server.proxy.url.replace("http", "socks5"))
        assert blame_of(await fault(socks, "http://127.0.0.1:9/")) is Blame.PROXY
        assert blame_of(await fault(server.proxy, "http://127.0.0.1:9/")) is Blame.SITE


def test_a_proxy_whose_name_is_unknown_is_to_blame_itself() -> None:
    error = aiohttp.ClientConnectorDNSError(Mock(host="proxy.org"), OSError("no such name"))
    assert (blame_of(error), in_words(error)) == (Blame.PROXY, "the proxy's name proxy.org cannot be resolved")


@pytest.mark.parametrize(
    ("status", "blame"),
    [
        (200, None),
        (404, None),
        (500, None),
        (403, Blame.SITE),
        (429, Blame.SITE),
        (502, Blame.SITE),
        (503, Blame.SITE),
        (504, Blame.SITE),
        (407, Blame.PROXY),
    ],
)
def test_an_answer_is_judged_by_its_status(status: int, blame: Blame | None) -> None:
    assert blame_for_status(status) is blame
    assert blame_of(StatusError("http://a.org/", status)) is blame
    assert status_of(StatusError("http://a.org/", status)) == status


def test_the_cause_behind_an_error_of_the_kit_is_what_counts() -> None:
    failed = ConnectionFailedError("http://a.org/ could not be fetched")
    failed.__cause__ = aiohttp.ServerDisconnectedError()
    assert (blame_of(failed), in_words(failed)) == (Blame.SITE, "Server disconnected")
    late = TimedOutError("http://a.org/ did not answer within 30 seconds")
    late.__cause__ = TimeoutError()
    assert (blame_of(late), in_words(late)) == (Blame.SITE, "no answer in time")


@pytest.mark.parametrize(
    "error",
    [
        ProcessingError("no title"),
        ValidationError("no URL"),
        KeyError("x"),
        asyncio.CancelledError(),
        FileNotFoundError(),
    ],
)
def test_what_has_nothing_to_do_with_the_way_blames_nobody(error: BaseException) -> None:
    assert blame_of(error) is None
    assert status_of(error) is None
