"""The port of the metrics, asked by other users of the machine and by pages in its browser."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest

from longshore.observe import bounded_server
from longshore.observe.endpoint import observed_at
from longshore.observe.health_report import HealthReport


class Observed:
    def metrics(self) -> bytes:
        return b"longshore_jobs 7\n"

    def health(self) -> HealthReport:
        raise NotImplementedError


@pytest.fixture
async def port() -> AsyncIterator[int]:
    async with observed_at(0, "127.0.0.1", Observed()) as port:
        yield port


async def ask(port: int, *lines: str) -> str:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write("\r\n".join([*lines, "Connection: close", "", ""]).encode())
    answer = await reader.read()
    writer.close()
    return answer.decode()


async def test_a_page_that_gives_its_name_our_address_reads_nothing(port: int) -> None:
    for host in ("evil.test", f"evil.test:{port}", "127.0.0.1.evil.test", "[::1", ""):
        answer = await ask(port, "GET /metrics HTTP/1.1", f"Host: {host}")
        assert answer.startswith("HTTP/1.1 400"), host
        assert "longshore_jobs" not in answer
    for host in (f"127.0.0.1:{port}", "localhost", "LOCALHOST:1", "[::1]:80"):
        assert "longshore_jobs 7" in await ask(port, "GET /metrics HTTP/1.1", f"Host: {host}")


async def test_only_reading_is_answered(port: int) -> None:
    assert (await ask(port, "POST /metrics HTTP/1.1", "Host: localhost", "Content-Length: 0")).startswith(
        "HTTP/1.1 405"
    )
    assert (await ask(port, "GET /metrics/../x HTTP/1.1", "Host: localhost")).startswith("HTTP/1.1 404")


async def test_silent_connections_are_closed(monkeypatch: pytest.MonkeyPatch, port: int) -> None:
    monkeypatch.setattr(bounded_server, "CONNECTION_SECONDS", 0.01)
    for begun in (b"", b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nX: "):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(begun)
        with suppress(ConnectionError):
            assert await reader.read() == b""
        writer.close()


async def test_connections_beyond_the_bound_are_closed_and_others_are_answered(
    monkeypatch: pytest.MonkeyPatch, port: int
) -> None:
    monkeypatch.setattr(bounded_server, "MOST_CONNECTIONS", 3)
    held = [await asyncio.open_connection("127.0.0.1", port) for _ in range(3)]
    assert "longshore_jobs" not in await refused(port)
    for _, writer in held:
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    answers = [await reader.read() for reader, _ in held]
    assert all(b"longshore_jobs 7" in answer for answer in answers)
    for _, writer in held:
        writer.close()
        await writer.wait_closed()


async def refused(port: int) -> str:
    try:
        return await ask(port, "GET /metrics HTTP/1.1", "Host: localhost")
    except ConnectionError:
        return ""
