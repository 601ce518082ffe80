"""A page cannot send a worker to addresses of a private network, however it spells or hides them."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.scrape.scripted_site import Answer, ScriptedSite

from longshore.errors import ProcessingError, SettingsError, ValidationError
from longshore.scrape.http import Http
from longshore.scrape.http.address_policy import (
    AddressPolicy,
    OwnHosts,
    PrivateAddressError,
    is_public,
    literal_address,
    names_an_address,
)
from longshore.scrape.http.curl_transport import CurlTransport
from longshore.scrape.http.page_cache import PageCache
from longshore.scrape.http.request import Request
from longshore.scrape.http.transport import TransferLimits

Kind = Literal["aiohttp", "curl"]

SPELLINGS = [
    "127.0.0.1",
    "localhost",
    "LOCALHOST",
    "localhost.",
    "127.1",
    "127.0.1",
    "2130706433",
    "0x7f000001",
    "0x7f.1",
    "0177.0.0.1",
    "017700000001",
    "0.0.0.0",
    "[::1]",
    "[::ffff:127.0.0.1]",
    "[::ffff:7f00:1]",
    "[::127.0.0.1]",
    "[64:ff9b::7f00:1]",
    "[2002:7f00:1::]",
    "１２７.0.0.1",
    "user:password@127.0.0.1",
    "127.0.0.2",
]


@pytest.fixture(params=["aiohttp", "curl"])
def kind(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture
async def http(kind: Kind) -> AsyncIterator[Http]:
    made = Http(robots=False, retries=0, transport=kind)
    yield made
    await made.close()


@pytest.fixture
async def victim() -> AsyncIterator[ScriptedSite]:
    """A service of this machine that no job names."""
    async with ScriptedSite().running() as site:
        yield site


@pytest.fixture
async def page() -> AsyncIterator[ScriptedSite]:
    """The site of the attacker, which the job names."""
    async with ScriptedSite().running() as site:
        yield site


def sends_to(page: ScriptedSite, url: str, status: int = 302) -> None:
    page.script["/away"] = [Answer(status=status, headers={"Location": url})]


@pytest.mark.parametrize("spelling", SPELLINGS)
async def test_a_redirect_reaches_no_other_service_of_this_machine(
    http: Http, page: ScriptedSite, victim: ScriptedSite, spelling: str, resolves: dict[str, list[str]]
) -> None:
    resolves |= {name: ["127.0.0.1"] for name in ("localhost.", "0x7f000001", "0x7f.1")}  # as a resolver reads them
    sends_to(page, f"http://{spelling}:{victim.port}/admin")
    with pytest.raises((ProcessingError, ValidationError)) as caught:
        await http.get(f"{page.url}/away")
    assert not caught.value.retryable
    assert victim.requests == []


async def test_the_refusal_names_the_host_and_the_setting(http: Http, page: ScriptedSite, victim: ScriptedSite) -> None:
    sends_to(page, f"http://localhost:{victim.port}/")
    with pytest.raises(PrivateAddressError, match=rf"localhost:{victim.port} is on a private.*LONGSHORE_PRIVATE_HOSTS"):
        await http.get(f"{page.url}/away")


async def test_a_host_that_the_job_names_is_asked_wherever_it_is(http: Http, victim: ScriptedSite) -> None:
    victim.script["/away"] = [Answer(status=302, headers={"Location": "/here"})]
    assert (await http.get(f"{victim.url}/away")).status == 200
    assert len(victim.asked("/here")) == 1


@pytest.mark.parametrize("allowed", ["127.0.0.1", "127.0.0.0/8"])
async def test_the_user_can_allow_a_network(kind: Kind, page: ScriptedSite, victim: ScriptedSite, allowed: str) -> None:
    http = Http(robots=False, transport=kind, private_hosts=(allowed,))
    sends_to(page, f"{victim.url}/x")
    assert (await http.get(f"{page.url}/away")).status == 200
    await http.close()


async def test_an_open_connection_of_another_job_is_not_used_for_a_page(
    http: Http, page: ScriptedSite, victim: ScriptedSite
) -> None:
    assert (await http.get(f"{victim.url}/mine")).status == 200
    sends_to(page, f"{victim.url}/admin")
    with pytest.raises(PrivateAddressError):
        await http.get(f"{page.url}/away")
    assert victim.asked("/admin") == []


async def test_a_job_that_names_its_host_may_not_leave_it_by_a_url_of_a_page(
    http: Http, page: ScriptedSite, victim: ScriptedSite
) -> None:
    attempt = http.attempt(own=OwnHosts([page.host]))
    assert (await attempt.get(f"{page.url}/x")).status == 200
    with pytest.raises(PrivateAddressError):
        await attempt.get(f"{victim.url}/x")
    assert victim.requests == []


async def test_the_first_host_is_the_own_one_of_a_job_that_names_none(
    http: Http, page: ScriptedSite, victim: ScriptedSite
) -> None:
    attempt = http.attempt(own=OwnHosts())
    assert (await attempt.get(f"{page.url}/x")).status == 200
    with pytest.raises(PrivateAddressError):
        await attempt.get(f"{victim.url}/x")


async def test_a_page_of_the_cache_counts_as_the_first_that_a_job_asked_for(
    kind: Kind, page: ScriptedSite, victim: ScriptedSite, tmp_path: Path
) -> None:
    http = Http(robots=False, transport=kind, cache=PageCache(tmp_path, ttl=timedelta(hours=1)))
    await http.get(f"{page.url}/x")
    attempt = http.attempt(own=OwnHosts())
    assert (await attempt.get(f"{page.url}/x")).status == 200
    assert len(page.asked("/x")) == 1
    with pytest.raises(PrivateAddressError):
        await attempt.get(f"{victim.url}/x")
    assert victim.requests == []
    await http.close()


async def test_a_host_that_only_a_page_named_is_refused(http: Http, victim: ScriptedSite) -> None:
    async def no(_: str) -> bool:
        return False

    with pytest.raises(PrivateAddressError):
        await http.attempt(own=OwnHosts([victim.host], no)).get(f"{victim.url}/x")
    assert victim.requests == []


async def test_the_robots_txt_of_a_refused_host_is_not_asked_for(
    kind: Kind, page: ScriptedSite, victim: ScriptedSite
) -> None:
    http = Http(retries=0, transport=kind)
    sends_to(page, f"{victim.url}/x")
    with pytest.raises(PrivateAddressError):
        await http.get(f"{page.url}/away")
    assert victim.requests == []
    # A job that names the host is not shut out by what the page did.
    assert (await http.get(f"{victim.url}/x")).status == 200
    assert len(victim.asked("/robots.txt")) == 1
    await http.close()


async def test_a_robots_txt_that_leads_to_a_private_network_counts_as_none(
    kind: Kind, page: ScriptedSite, victim: ScriptedSite
) -> None:
    http = Http(retries=0, transport=kind)
    page.script["/robots.txt"] = [Answer(status=302, headers={"Location": f"{victim.url}/admin"})]
    assert (await http.get(f"{page.url}/x")).status == 200
    assert victim.requests == []
    await http.close()


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """Names and their addresses, instead of a name server."""
    known: dict[str, list[str]] = {}
    real = socket.getaddrinfo

    def look_up(host: Any, port: Any, *args: Any, **named: Any) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        return [row for address in known.get(name, [name]) for row in real(address, port, *args, **named)]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    return known


async def test_a_name_is_judged_by_the_address_it_has(
    http: Http, page: ScriptedSite, victim: ScriptedSite, resolves: dict[str, list[str]]
) -> None:
    resolves["innocent.test"] = ["127.0.0.1"]
    sends_to(page, f"http://innocent.test:{victim.port}/x")
    with pytest.raises(PrivateAddressError, match=r"innocent\.test.*127\.0\.0\.1"):
        await http.get(f"{page.url}/away")
    assert victim.requests == []
    assert (await http.get(f"http://innocent.test:{victim.port}/mine")).status == 200


async def test_an_own_name_that_moves_to_the_metadata_service_is_refused(
    kind: Kind, resolves: dict[str, list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    resolves["innocent.test"] = ["169.254.169.254"]

    async def no_connection(*_: Any, **__: Any) -> Any:
        raise AssertionError("a connection was tried")

    monkeypatch.setattr("aiohttp.connector.aiohappyeyeballs.start_connection", no_connection)
    monkeypatch.setattr(CurlTransport, "_perform", no_connection)
    http = Http(robots=False, retries=0, transport=kind, private_hosts=("169.254.0.0/16", "innocent.test"))
    for url in ("http://innocent.test/latest/", "http://169.254.169.254/latest/", "http://[::ffff:a9fe:a9fe]/"):
        with pytest.raises(PrivateAddressError, match="metadata service"):
            await http.get(url)
    await http.close()


async def test_curl_connects_to_the_judged_address_and_looks_up_no_name(
    victim: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = CurlTransport(TransferLimits(), AddressPolicy(["pinned.test"]))

    async def addresses(_: str) -> list[str]:
        return ["127.0.0.1"]

    monkeypatch.setattr(transport._resolver, "addresses", addresses)
    answer = await transport.send(Request("GET", f"http://pinned.test:{victim.port}/x"), None, None)
    assert answer.status == 200
    await transport.close()


async def test_an_answer_of_curl_from_another_address_is_not_used(
    victim: ScriptedSite, monkeypatch: pytest.MonkeyPatch
) -> None:
    transport = CurlTransport(TransferLimits(), AddressPolicy())

    async def no_pin(request: Request) -> str:
        return request.url

    monkeypatch.setattr(transport, "_pin", no_pin)
    with pytest.raises(PrivateAddressError):
        await transport.send(Request("GET", f"{victim.url}/x"), None, None)
    await transport.close()


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "a.localhost", "127.1", "0x7f000001", "::1", "10.0.0.1:8080"]
)
def test_through_a_proxy_the_text_of_a_host_is_judged(host: str) -> None:
    with pytest.raises(PrivateAddressError):
        AddressPolicy().check_text(host, own=False)
    AddressPolicy().check_text(host, own=True)
    AddressPolicy().check_text("pages.example", own=False)


async def test_a_proxy_is_not_asked_for_addresses_of_its_own_network(
    kind: Kind, page: ScriptedSite, victim: ScriptedSite
) -> None:
    http = Http(robots=False, retries=0, transport=kind)
    proxy = page.url  # it answers requests for any URL
    page.script["/go"] = [Answer(status=302, headers={"Location": f"http://127.0.0.1:{victim.port}/x"})]
    with pytest.raises(PrivateAddressError):
        await http.get("http://pages.example/go", proxy=proxy)
    assert all("/x" not in asked.path for asked in page.requests)
    await http.close()


def test_a_name_that_was_public_does_not_become_private() -> None:
    policy = AddressPolicy()
    assert policy.permitted("rebinding.test", ["93.184.215.14"], own=True) == ["93.184.215.14"]
    with pytest.raises(PrivateAddressError, match="was at a public address before"):
        policy.permitted("rebinding.test", ["127.0.0.1"], own=True)


def test_of_several_addresses_only_the_permitted_ones_are_used() -> None:
    assert AddressPolicy().permitted("both.test", ["10.0.0.1", "93.184.215.14"], own=False) == ["93.184.215.14"]


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.31.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.1.1",
        "0.0.0.0",
        "224.0.0.1",
        "255.255.255.255",
        "198.18.0.1",
        "::",
        "::1",
        "fe80::1",
        "fc00::1",
        "ff02::1",
        "64:ff9b:1::1",
        "fec0::1",
    ],
)
def test_addresses_that_are_not_public(address: str) -> None:
    assert not is_public(ipaddress.ip_address(address))
    with pytest.raises(PrivateAddressError):
        AddressPolicy().permitted("any.test", [address], own=False)


@pytest.mark.parametrize("address", ["93.184.215.14", "1.1.1.1", "2606:4700::1111"])
def test_public_addresses_are_permitted(address: str) -> None:
    assert AddressPolicy().permitted("any.test", [address], own=False) == [address]


@pytest.mark.parametrize("name", ["example.com", "1.2.3.4.5", "0xyz", "", "a:b", "1..2"])
def test_other_names_spell_no_address(name: str) -> None:
    assert literal_address(name) is None


def test_a_network_that_is_none_is_a_clear_error() -> None:
    with pytest.raises(SettingsError, match=r"LONGSHORE_PRIVATE_HOSTS cannot contain '10\.0\.0\.0/99'"):
        AddressPolicy(["10.0.0.0/99"])


@pytest.mark.parametrize(
    "host",
    [
        *("127.1", "127.0.0.1:80", "0x7f.1", "2130706433", "017700000001", "::1", "[::1]:80", "fe80::1%1"),
        *("::ffff:127.0.0.1", "localhost", "localhost.", "a.localhost:90"),
    ],
)
def test_every_host_that_its_text_alone_makes_private_is_judged_before_a_proxy_gets_it(host: str) -> None:
    assert names_an_address(host)
    with pytest.raises(PrivateAddressError):
        AddressPolicy().check_text(host, own=False)


@pytest.mark.parametrize("host", ["shop.test", "shop.test:8080", "a.1.test"])
def test_a_name_is_left_to_the_proxy(host: str) -> None:
    assert not names_an_address(host)
    AddressPolicy().check_text(host, own=False)
