"""A page in a browser reaches no service of a private network, and no other user of the machine uses the browser."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import psutil
import pytest
from aiohttp import web
from tests.scrape.browser.conftest import KINDS
from tests.scrape.scripted_site import Answer, ScriptedSite

from longshore.errors import WorkerError
from longshore.scrape.browser import Browsers
from longshore.scrape.browser.local_proxy import LocalProxy
from longshore.scrape.http.address_policy import AddressPolicy, OwnHosts, PrivateAddressError
from longshore.system.loopback_peer import is_own_peer

Make = Callable[..., Browsers]
HTML = Answer("<p>mine", headers={"Content-Type": "text/html"})


@pytest.fixture
async def victim() -> AsyncIterator[ScriptedSite]:
    """A service of this machine that no job names."""
    async with ScriptedSite().running() as site:
        yield site


@pytest.fixture
async def page_site() -> AsyncIterator[ScriptedSite]:
    """The site of the attacker, which the job names."""
    async with ScriptedSite().running() as site:
        yield site


def attack(port: int) -> str:
    """Return a page that asks a service of this machine in many ways, then tells its own site that it is done."""
    return f"""<link rel=stylesheet href='http://127.0.0.1:{port}/style'><img src='http://localhost:{port}/image'>
    <iframe src='http://127.0.0.1:{port}/frame'></iframe><script src='http://[::1]:{port}/script'></script>
    <form id=f method=post action='http://127.0.0.1:{port}/form' target=x></form><iframe name=x></iframe><script>
    f.submit(); new WebSocket('ws://127.0.0.1:{port}/socket'); navigator.sendBeacon('http://127.0.0.1:{port}/beacon');
    Promise.allSettled([fetch('http://127.0.0.1:{port}/fetch', {{method: 'POST', mode: 'no-cors', body: '{{}}'}}),
      fetch('http://2130706433:{port}/number', {{mode: 'no-cors'}}),
      fetch('http://127.0.0.1:{port}/again', {{mode: 'no-cors'}})]).then(() => fetch('/done'));
    </script>"""


@pytest.mark.parametrize("kind", KINDS)
async def test_scripts_and_redirects_of_a_page_reach_no_other_service_of_this_machine(
    make_browsers: Make, page_site: ScriptedSite, victim: ScriptedSite, kind: str
) -> None:
    done = asyncio.Event()

    def finished(_: web.Request) -> Answer:
        done.set()
        return Answer()

    page_site.script["/page"] = [Answer(attack(victim.port), headers={"Content-Type": "text/html"})]
    page_site.script["/done"] = finished
    page_site.script["/away"] = [Answer(status=302, headers={"Location": f"{victim.url}/redirected"})]
    browsers = make_browsers(kind)
    async with browsers.page() as page:
        await page.open(f"{page_site.url}/page")
        await asyncio.wait_for(done.wait(), 30)
        with pytest.raises(WorkerError):
            await page.open(f"{page_site.url}/away")
    assert victim.requests == []


async def test_a_host_that_only_a_page_named_is_not_opened(make_browsers: Make, victim: ScriptedSite) -> None:
    async def no(_: str) -> bool:
        return False

    browsers = make_browsers("playwright").attempt(own=OwnHosts([victim.host], no))
    async with browsers.page() as page:
        with pytest.raises(PrivateAddressError, match="LONGSHORE_PRIVATE_HOSTS"):
            await page.open(f"{victim.url}/x")
    assert victim.requests == []


async def test_the_hosts_of_a_job_are_forgotten_with_its_page(
    make_browsers: Make, page_site: ScriptedSite, victim: ScriptedSite
) -> None:
    browsers = make_browsers("playwright")
    async with browsers.page() as page:
        victim.script["/mine"] = [HTML]
        assert (await page.open(f"{victim.url}/mine")).status == 200
    page_site.script["/away"] = [Answer(status=302, headers={"Location": f"{victim.url}/redirected"})]
    async with browsers.page() as page:
        with pytest.raises(WorkerError):
            await page.open(f"{page_site.url}/away")
    assert victim.asked("/redirected") == []


async def ask_through(proxy: LocalProxy, url: str) -> bytes:
    reader, writer = await asyncio.open_connection("127.0.0.1", int(proxy.server.rpartition(":")[2]))
    writer.write(f"GET {url} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
    try:
        return await reader.read(1000)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def test_the_local_proxy_serves_no_other_user(victim: ScriptedSite, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = LocalProxy(None, AddressPolicy(["127.0.0.1"]))
    await proxy.start()
    assert b"200 OK" in await ask_through(proxy, f"{victim.url}/x")
    # From now on our own connections are those of another user.
    user = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: user + 1)
    assert await ask_through(proxy, f"{victim.url}/x") == b""
    assert len(victim.requests) == 1
    await proxy.close()


def test_a_connection_that_does_not_exist_is_not_of_this_user() -> None:
    assert not is_own_peer(1, 2)


async def test_selenium_obeys_no_one_who_does_not_know_the_path_of_its_driver(
    make_browsers: Make, victim: ScriptedSite
) -> None:
    browsers = make_browsers("selenium")
    async with browsers.page() as page:
        victim.script["/x"] = [HTML]
        await page.open(f"{victim.url}/x")
        (driver,) = browsers.pids
        members = [psutil.Process(driver), *psutil.Process(driver).children(recursive=True)]
        listening = set()
        for member in members:
            with suppress(psutil.NoSuchProcess):  # a browser starts helpers that end at once
                for each in member.net_connections("tcp"):
                    if each.status == psutil.CONN_LISTEN:
                        listening.add((member.name(), each.laddr.port))
        assert {name for name, _ in listening} == {"chromedriver"}
        ports = {port for _, port in listening}
        for port in ports:
            assert min(await statuses_without_secret(port)) >= 400


async def statuses_without_secret(port: int) -> set[int]:
    import aiohttp

    found = set()
    async with aiohttp.ClientSession() as session:
        for method, path in (("GET", "/sessions"), ("GET", "/status"), ("POST", "/session"), ("GET", "/json/version")):
            body: Any = {"capabilities": {}} if method == "POST" else None
            async with session.request(method, f"http://127.0.0.1:{port}{path}", json=body) as answer:
                found.add(answer.status)
    return found
