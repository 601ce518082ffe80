"""A queue over HTTP is reached through the proxy of the environment, and its key is sent whatever ~/.netrc has."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from tests.media.http.server_process import ServerProcess

from longshore.errors import QueueError, SettingsError
from longshore.media.http.connection import ApiConnection
from longshore.media.http.queue import HttpQueue

PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy")


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in PROXIES:
        monkeypatch.delenv(name, raising=False)


@asynccontextmanager
async def proxy() -> AsyncIterator[tuple[int, list[bytes]]]:
    """A proxy that refuses every request, and what it was asked for."""
    heads: list[bytes] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 500 no\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1], heads


@pytest.mark.ledger("A16")
@pytest.mark.parametrize("variable", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
async def test_the_proxy_of_the_environment_is_asked_with_its_login(
    monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    async with proxy() as (port, heads):
        monkeypatch.setenv(variable, f"http://me:secret@127.0.0.1:{port}")
        with pytest.raises(QueueError):
            await HttpQueue.open(ApiConnection("http://queue.example.test/api", "k"))
    (head,) = heads
    assert head.startswith(b"GET http://queue.example.test/api/v1/capabilities HTTP/1.1\r\n")
    assert b"Proxy-Authorization: Basic " + base64.b64encode(b"me:secret") in head


async def test_https_is_asked_for_through_a_tunnel(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy() as (port, heads):
        monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{port}")
        with pytest.raises(QueueError):
            await HttpQueue.open(ApiConnection("https://queue.example.test/api", "k"))
    assert heads[0].startswith(b"CONNECT queue.example.test:443 ")
    assert b"Bearer" not in heads[0]  # the proxy must not learn the key


async def test_this_machine_is_reached_directly(
    api_server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = await asyncio.to_thread(api_server.open, f"sqlite:///{tmp_path / 'q.db'}", manual=False)
    async with proxy() as (port, heads):
        monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{port}")
        queue = await HttpQueue.open(ApiConnection(url, api_server.key))
        assert await queue.stats() == []
        await queue.close()
    assert heads == []


async def test_a_host_in_no_proxy_is_asked_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "queue.example.test")
    assert ApiConnection("https://queue.example.test/api", "k")._proxy is None
    assert ApiConnection("https://other.example.test/api", "k")._proxy == "http://127.0.0.1:9"


def test_a_proxy_of_another_kind_is_refused_with_the_fix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "socks5://me:secret@127.0.0.1:9")
    with pytest.raises(SettingsError, match="only HTTP proxies can be used") as caught:
        ApiConnection("https://queue.example.test/api", "k")
    assert "secret" not in str(caught.value)


async def test_a_login_in_netrc_does_not_take_the_place_of_the_key(
    api_server: ServerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "netrc").write_text("default login me password secret\n")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    url = await asyncio.to_thread(api_server.open, f"sqlite:///{tmp_path / 'q.db'}", manual=False)
    queue = await HttpQueue.open(ApiConnection(url, api_server.key))
    assert await queue.stats() == []
    await queue.close()
