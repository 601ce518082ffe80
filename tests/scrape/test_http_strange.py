"""Malformed responses, and how they are stored."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import pytest
from tests.linear_time import assert_linear

from longshore.errors import ConnectionFailedError, Failure, ValidationError
from longshore.job import Job
from longshore.scrape.capture.failure_bundles import FailureBundles, read_bundle
from longshore.scrape.capture.failure_signature import FailureSignature
from longshore.scrape.capture.page_store import PageStore
from longshore.scrape.capture.trail import Trail
from longshore.scrape.http.client import Http
from longshore.scrape.http.page_cache import PageCache
from longshore.scrape.http.response import Response

JOB = Job(id="1", run="monday", kind="page", key="k", payload={}, epoch=1)
LATIN = b'HTTP/1.1 200 OK\r\nX-Name: caf\xe9\r\nETag: "\xff"\r\nContent-Length: 2\r\n\r\nhi'


@asynccontextmanager
async def saying(*answers: bytes) -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a server that answers with these bytes in order; yield its URL and the first line of each request."""
    asked: list[bytes] = []

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).partition(b"\r\n")[0])
        writer.write(answers[min(len(asked), len(answers)) - 1])
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x", asked
    finally:
        server.close()


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_headers_in_latin_1_are_text_that_can_be_kept(tmp_path: Path, transport: str) -> None:
    store, bundles = PageStore(tmp_path / "pages"), FailureBundles(tmp_path / "bundles")
    trail = Trail(store.attempt(JOB))
    http = Http(transport=transport, robots=False, cache=PageCache(tmp_path / "cache"))  # type: ignore[arg-type]
    async with saying(LATIN) as (url, asked):
        for _ in range(2):
            answer = await http.attempt(watch=trail.watch).get(url)
            assert answer.headers["x-name"] == "café"
    assert len(asked) == 1, "the second one came from the cache"
    await http.close()
    trail.close()
    assert store.exchanges(JOB)[0].headers["X-Name"] == "café"
    place = bundles.keep(JOB, Failure("unknown", "broken"), FailureSignature("E", "f.py", "f", 1), trail)
    assert place is not None
    assert read_bundle(place)[1][0].headers["X-Name"] == "café"


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_headers_in_utf_8_are_read_and_sent_as_such(transport: Literal["aiohttp", "curl"]) -> None:
    http = Http(robots=False, transport=transport)
    async with saying(LATIN.replace(b"\xe9", "é".encode())) as (url, _):
        assert (await http.get(url, headers={"X-Own": "你好"})).headers["x-name"] == "café"
    await http.close()


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_a_redirect_that_is_no_utf_8_leads_to_the_very_bytes(transport: Literal["aiohttp", "curl"]) -> None:
    http = Http(robots=False, transport=transport)
    moved = b"HTTP/1.1 302 Found\r\nLocation: /caf\xe9?a=%20b\r\nContent-Length: 0\r\n\r\n"
    async with saying(moved, LATIN) as (url, asked):
        assert (await http.get(url)).text == "hi"
    await http.close()
    assert asked[1] == b"GET /caf%E9?a=%20b HTTP/1.1"


@pytest.mark.parametrize(
    "charset", ["idna", "undefined", "base64", "nonsense", "punycode", "utf-7", "unicode_escape", "hz"]
)
def test_a_charset_that_is_none_for_pages_is_taken_for_utf_8(charset: str) -> None:
    answer = Response(url="", headers={"Content-Type": f"text/html; charset={charset}"}, body="grüße.".encode())
    assert answer.text == "grüße."


@pytest.mark.parametrize(
    "charset", ["punycode", "gb18030", "big5", "shift_jis", "iso-2022-jp", "euc-kr", "utf-16", "koi8-r"]
)
def test_no_charset_makes_decoding_grow_faster_than_the_page(charset: str) -> None:
    def page(length: int) -> Response:
        return Response(url="", headers={"Content-Type": f"text/html; charset={charset}"}, body=b"a-" + b"a" * length)

    assert_linear(lambda answer: answer.text, page, small=80_000)


@pytest.mark.parametrize("transport", ["aiohttp", "curl"])
async def test_what_is_no_http_is_a_failed_connection_and_worth_another_try(transport: str) -> None:
    http = Http(transport=transport, robots=False, retries=0)  # type: ignore[arg-type]
    async with saying(b"\x00\x01 hello") as (url, _):
        with pytest.raises(ConnectionFailedError, match="could not be fetched"):
            await http.get(url)
    await http.close()


async def test_a_redirect_to_a_host_of_many_labels_is_no_url() -> None:
    """Each label is a domain whose cookies are looked up."""
    url = f"http://{'a.' * 30_000}test/"
    http = Http(robots=False)
    with pytest.raises(ValidationError, match="is not a URL that can be fetched"):
        await http.get(url)
    await http.close()
