"""The check of all proxies at once."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from tests.scrape.proxy_servers import ProxyServer, Site, SocksServer, running

from longshore.errors import UsageError
from longshore.scrape.proxies.check import Checked, address_in, check_proxies
from longshore.scrape.proxies.proxy_file import Proxy


async def test_each_is_told_apart_and_in_order() -> None:
    plain = ProxyServer(source="127.0.0.1")
    socks = SocksServer(login=("bob", "geheim"))
    wrong = ProxyServer(login=("ann", "geheim"))
    closed = ProxyServer()
    async with running(closed):
        gone = closed.proxy
    async with Site().running() as site, running(plain, socks, wrong):
        proxies = [plain.proxy, gone, socks.proxy, wrong.proxy_with(("ann", "hunter2"))]
        checked = await check_proxies(proxies, f"{site.url}/json")
    assert [each.ok for each in checked] == [True, False, True, False]
    assert [each.exit_address for each in checked] == ["127.0.0.1", None, "127.0.0.1", None]
    assert checked[1].why.startswith("the proxy cannot be reached: ")
    assert checked[3].why == "answered 407 Proxy Authentication Required"
    assert [each.seconds is not None for each in checked] == [True, False, True, True]
    assert "hunter2" not in str(checked)
    assert "geheim" not in str(checked)


async def test_an_answer_of_the_page_that_turns_us_away_is_a_failure() -> None:
    server = ProxyServer()
    async with Site(allowed=0).running() as site, running(server):
        (checked,) = await check_proxies([server.proxy], f"{site.url}/page")
    assert (checked.ok, checked.why) == (False, "answered 403 Forbidden")


async def test_no_more_than_so_many_are_tested_at_a_time_and_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    most = under_way = 0

    async def counted(proxy: Proxy, _url: str, _deadline: timedelta) -> Checked:
        nonlocal most, under_way
        under_way += 1
        most = max(most, under_way)
        for _ in range(5):
            await asyncio.sleep(0)
        under_way -= 1
        return Checked(proxy=str(proxy), ok=True)

    monkeypatch.setattr("longshore.scrape.proxies.check._check", counted)
    proxies = [Proxy(f"http://10.0.0.{n}:80") for n in range(12)]
    checked = await check_proxies(proxies, "http://a.org/", at_once=4)
    assert [each.proxy for each in checked] == [proxy.url for proxy in proxies]
    assert most == 4


async def test_one_that_is_silent_is_given_up_at_its_deadline() -> None:
    over = asyncio.Event()

    class Silent(ProxyServer):
        async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await over.wait()

    server = Silent()
    async with running(server):
        (checked,) = await check_proxies([server.proxy], "http://127.0.0.1:9/", deadline=timedelta(milliseconds=50))
        over.set()
    assert (checked.ok, checked.why) == (False, "no answer in time (0.05 s)")


@pytest.mark.parametrize("url", ["a.org", "ftp://a.org/", "http://", "http://a.org:x/"])
async def test_what_is_no_url_is_no_fault_of_the_proxies(url: str) -> None:
    with pytest.raises(UsageError, match="not a URL"):
        await check_proxies([Proxy("http://127.0.0.1:9")], url)


@pytest.mark.parametrize(
    ("body", "address"),
    [
        (b"203.0.113.7\n", "203.0.113.7"),
        (b'"203.0.113.7"', "203.0.113.7"),
        (b'{"ip": "2001:db8::1"}', "2001:db8::1"),
        (b'{"origin": "10.0.0.1, 203.0.113.7"}', "203.0.113.7"),
        (b'{"country": "CH"}', None),
        (b"<html>hello</html>", None),
        (b"\xff\xfe", None),
        (b"", None),
        (b"7", None),
    ],
)
def test_the_address_is_read_where_the_page_tells_it(body: bytes, address: str | None) -> None:
    assert address_in(body) == address
