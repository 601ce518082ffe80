"""The page that is requested is the page of the job's key, with either transport."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from tests.scrape.test_http_strange import saying

from longshore.scrape.http.client import Http
from longshore.scrape.http.page_cache import PageCache

HI = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
LOOSE = [b"HTTP/1.1 302 Found\r\nLocation:  /y.html \r\nContent-Length: 0\r\n\r\n", HI]

TransportName = Literal["aiohttp", "curl"]
both_transports = pytest.mark.parametrize("transport", ["aiohttp", "curl"])


@both_transports
@pytest.mark.parametrize(
    ("path", "sent"),
    [
        ("/y.html ", "/y.html"),
        ("/y.html\r\n\t", "/y.html"),
        ("/y.h\ttml", "/y.html"),
        ("/y.html\u00a0", "/y.html%C2%A0"),
        ("/a b", "/a%20b"),
        ("/?q=%C4%E3", "/?q=%C4%E3"),
        ("/grüße", "/gr%C3%BC%C3%9Fe"),
        ("/a/../b", "/b"),
    ],
)
async def test_a_url_is_requested_as_a_browser_reads_it(transport: TransportName, path: str, sent: str) -> None:
    http = Http(transport=transport, robots=False, retries=0)
    async with saying(HI) as (url, asked):
        at = url.removesuffix("/x")
        await http.get(f" {at}{path}")
        await http.get(f"\n{at}{path}", headers={"X-Own": "1"})
    await http.close()
    assert asked == [f"GET {sent} HTTP/1.1".encode()] * 2


@both_transports
async def test_a_redirect_with_white_space_leads_to_the_page(transport: TransportName) -> None:
    http = Http(transport=transport, robots=False, retries=0)
    async with saying(*LOOSE) as (url, asked):
        assert (await http.get(url)).text == "hi"
    await http.close()
    assert asked[1] == b"GET /y.html HTTP/1.1"


@both_transports
async def test_the_cache_keeps_queries_apart_that_are_not_utf_8(transport: TransportName, tmp_path: Path) -> None:
    http = Http(transport=transport, robots=False, cache=PageCache(tmp_path))
    first, second = HI, HI.replace(b"hi", b"ho")
    async with saying(first, second) as (url, _):
        assert (await http.get(f"{url}?q=%C4%E3&utm_source=x")).text == "hi"
        assert (await http.get(f"{url}?q=%BA%C3&utm_source=x")).text == "ho"
    await http.close()
