"""The proxy that the environment names (A16), for both transports and the browser."""

from __future__ import annotations

import asyncio
from typing import Literal

import pytest
from tests.scrape.scripted_site import NotingPace, ScriptedSite
from tests.scrape.test_cookies import proxy

from longshore.errors import SettingsError
from longshore.scrape.browser.local_proxy import LocalProxy
from longshore.scrape.http.address_policy import AddressPolicy
from longshore.scrape.http.client import Http
from longshore.scrape.proxies import ProxyPool
from longshore.scrape.proxies.environment import EnvironmentProxies
from longshore.scrape.proxies.proxy_file import Proxy

VARIABLES = ["http_proxy", "https_proxy", "all_proxy", "no_proxy"]
SHOP = "http://shop.example.test/a"


@pytest.fixture(autouse=True)
def no_proxy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def way(url: str, **environment: str) -> str | None:
    proxies = EnvironmentProxies.of(environment)
    found = None if proxies is None else proxies.proxy_for(url)
    return None if found is None else found.url


@pytest.mark.parametrize(
    ("environment", "url", "expected"),
    [
        ({}, SHOP, None),
        ({"HTTP_PROXY": ""}, SHOP, None),
        ({"HTTP_PROXY": "http://p:3128"}, SHOP, "http://p:3128"),
        ({"http_proxy": "http://p:3128"}, SHOP, "http://p:3128"),
        ({"http_proxy": "http://p:1", "HTTP_PROXY": "http://q:1"}, SHOP, "http://p:1"),
        ({"HTTP_PROXY": "http://p:3128"}, "https://shop.example.test/", None),
        ({"HTTPS_PROXY": "http://p:3128"}, "https://shop.example.test/", "http://p:3128"),
        ({"ALL_PROXY": "socks5://p"}, "https://shop.example.test/", "socks5://p:1080"),
        ({"HTTP_PROXY": "p:3128"}, SHOP, "http://p:3128"),
        ({"HTTP_PROXY": "http://p/"}, SHOP, "http://p:80"),
        ({"HTTP_PROXY": "http://me:pw@p:3128/"}, SHOP, "http://me:pw@p:3128/"),
        ({"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, SHOP, None),
        ({"HTTP_PROXY": "http://p:1"}, "http://localhost:80/", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://127.0.0.9:80/", None),
        ({"HTTP_PROXY": "http://p:1"}, "http://[::1]/", None),
    ],
)
def test_the_variables_name_the_way(environment: dict[str, str], url: str, expected: str | None) -> None:
    assert way(url, **environment) == expected


@pytest.mark.parametrize(
    ("excepted", "url", "direct"),
    [
        ("*", SHOP, True),
        ("example.test", SHOP, True),
        (".example.test", SHOP, True),
        ("*.example.test", SHOP, True),
        ("a.test, EXAMPLE.test ,b.test", SHOP, True),
        ("ample.test", SHOP, False),
        ("my.shop.example.test", SHOP, False),
        ("shop.example.test:80", SHOP, True),
        ("shop.example.test:8080", SHOP, False),
        ("example.test", "http://shop.example.test./", True),
        ("10.0.0.0/8", "http://10.1.2.3/", True),
        ("10.1.2.3", "http://10.1.2.3/", True),
        ("10.1.2.4", "http://10.1.2.3/", False),
        ("2.3", "http://10.1.2.3/", False),
        ("fd00::/8", "http://[fd00::1]/", True),
        ("[fd00::1]:80", "http://[fd00::1]/", True),
        ("", SHOP, False),
    ],
)
def test_no_proxy_names_the_hosts_that_are_reached_directly(excepted: str, url: str, direct: bool) -> None:
    for name in ("NO_PROXY", "no_proxy"):
        assert (way(url, http_proxy="http://p:1", **{name: excepted}) is None) == direct


def test_a_variable_that_names_no_proxy_is_refused_and_its_password_not_shown() -> None:
    with pytest.raises(SettingsError, match="The environment variable HTTPS_PROXY is not the URL of a proxy") as caught:
        EnvironmentProxies.of({"HTTPS_PROXY": "ftp://me:hunter2@p:1"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_requests_go_through_the_proxy_of_the_environment(
    transport: Literal["aiohttp", "curl"], monkeypatch: pytest.MonkeyPatch
) -> None:
    pace = NotingPace()
    async with proxy() as (url, _, asked), ScriptedSite().running() as site:
        monkeypatch.setenv("HTTP_PROXY", url)
        http = Http(transport=transport, retries=0, pace=pace)
        await http.get(SHOP)
        await http.get(f"{site.url}/here")
        await http.close()
    lines = [request.partition(b"\r\n")[0] for request in asked]
    assert lines == [b"GET http://shop.example.test/robots.txt HTTP/1.1", b"GET http://shop.example.test/a HTTP/1.1"]
    assert len(site.asked("/here")) == 1, "a site of this machine is reached directly"
    assert {identity for _, identity in pace.slots} == {""}, "the rate of a host is the same as without it"


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_a_proxy_of_the_users_own_replaces_that_of_the_environment(
    transport: Literal["aiohttp", "curl"], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
    async with proxy() as (url, _, asked):
        http = Http(transport=transport, robots=False, retries=0)
        await http.get(SHOP, proxy=url)
        await http.close()
        http = Http(transport=transport, robots=False, retries=0, proxies=ProxyPool([Proxy(url)]))
        await http.get(SHOP)
        await http.close()
    assert len(asked) == 2


async def test_the_browser_goes_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy() as (url, _, asked):
        monkeypatch.setenv("HTTP_PROXY", url)
        monkeypatch.setenv("HTTPS_PROXY", url)
        local = LocalProxy(None, AddressPolicy())
        await local.start()
        for request in (
            b"GET http://shop.example.test/a HTTP/1.1\r\n\r\n",
            b"CONNECT shop.example.test:443 HTTP/1.1\r\n\r\n",
        ):
            reader, writer = await asyncio.open_connection("127.0.0.1", int(local.server.rpartition(":")[2]))
            writer.write(request)
            assert (await reader.readline()).startswith(b"HTTP/1.1 200")
            writer.close()
            await writer.wait_closed()
        await local.close()
    assert [request.partition(b"\r\n")[0] for request in asked] == [
        b"GET http://shop.example.test/a HTTP/1.1",
        b"CONNECT shop.example.test:443 HTTP/1.1",
    ]
    assert b"Proxy-Authorization" not in b"".join(asked)
