"""A real browser behind the proxy of the environment (A16): every request of a page goes through it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest
from tests.scrape.browser.conftest import KINDS

from longshore.scrape.browser import Browsers

PAGE = b"""<img src=http://images.example.test/i><script src=//scripts.example.test/s></script><script>
fetch('http://api.example.test/f', {mode: 'no-cors'}).finally(() => fetch('/done'))</script>"""


@pytest.mark.parametrize("kind", KINDS)
async def test_every_request_of_a_page_goes_through_the_proxy_of_the_environment(
    make_browsers: Callable[..., Browsers], monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    asked: list[str] = []
    done = asyncio.Event()

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            while (await reader.readline()).strip():
                pass
            method, url, _ = line.decode().split()
            if method == "CONNECT":
                writer.write(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
                continue
            asked.append(url)
            if url.endswith("/done"):
                done.set()
            body = PAGE if url.endswith("/page") else b""
            head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n\r\n"
            writer.write(head.encode() + body)
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(name.lower(), raising=False)
        monkeypatch.setenv(name, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    async with make_browsers(kind).page() as page:
        opened = await page.open("http://shop.example.test/page")
        await asyncio.wait_for(done.wait(), 60)
    server.close()
    assert opened.status == 200
    # The names exist only for the proxy: what reached it was looked up nowhere else.
    expected = {"shop.example.test/page", "images.example.test/i", "scripts.example.test/s", "api.example.test/f"}
    assert {f"http://{each}" for each in expected} <= set(asked)
