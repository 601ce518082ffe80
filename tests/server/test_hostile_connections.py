"""Clients without a key: they cannot fill the memory of a server, hold its connections, or make it log a secret."""

from __future__ import annotations

import asyncio
import stat
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from tests.server.conftest import Api

from longshore.job import NewJob
from longshore.masking import mask_text
from longshore.server import bounded_connection
from longshore.server.auth.keys import KeyStore, Scope
from longshore.server.bounded_connection import BoundedConnection

PIECE = b"a" * 10_000
BEGIN = b"GET /api/v1/health/live HTTP/1.1\r\nHost: localhost\r\n"


@asynccontextmanager
async def connected(api: Api) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    port = int(api.url.split(":")[2].partition("/")[0])
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    yield reader, writer
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


async def answer_to(api: Api, pieces: Iterable[bytes]) -> tuple[bytes, int]:
    """Send pieces until the server closes the connection; return its answer and how many bytes it took."""
    async with connected(api) as (reader, writer):
        taken = 0
        with suppress(ConnectionError):
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
                taken += len(piece)
                await asyncio.sleep(0)
        async with asyncio.timeout(30):
            with suppress(ConnectionError):
                return await reader.read(), taken
        return b"", taken


def many_headers() -> Iterator[bytes]:
    yield BEGIN
    for number in range(2000):
        yield b"X-%d: %s\r\n" % (number, PIECE)


def long_header() -> Iterator[bytes]:
    yield BEGIN + b"X: "
    yield from [PIECE] * 2000


def long_url() -> Iterator[bytes]:
    yield b"GET /"
    yield from [PIECE] * 2000


def chunked() -> bytes:
    return b"POST /api/v1/claims HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"


def many_trailers() -> Iterator[bytes]:
    yield chunked() + b"1\r\n \r\n0\r\n"
    for number in range(2000):
        yield b"X-%d: %s\r\n" % (number, PIECE)


def long_chunk_extension() -> Iterator[bytes]:
    yield chunked() + b"1;x="
    yield from [PIECE] * 2000


@pytest.mark.parametrize("pieces", [many_headers, long_header, long_url, many_trailers, long_chunk_extension])
async def test_a_request_cannot_be_endless_besides_its_body(api: Api, pieces: object) -> None:
    assert callable(pieces)
    _, taken = await answer_to(api, pieces())
    assert taken < 10_000_000, "what the buffers of the connection take is not read by the server"
    assert (await api.get("/health/live"))["status"]


async def test_ordinary_requests_on_one_connection_are_not_counted_together(api: Api) -> None:
    async with connected(api) as (reader, writer):
        for _ in range(5):
            writer.write(BEGIN + b"X: %s\r\n\r\n" % (PIECE * 2))
            answer = await reader.readuntil(b"\r\n\r\n")
            length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await reader.readexactly(length)
            assert answer.startswith(b"HTTP/1.1 200")


async def test_a_large_body_in_pieces_is_read(api: Api) -> None:
    jobs = (
        b'{"jobs": ['
        + b",".join(b'{"kind": "page", "run": "r", "key": "%d", "payload": {}}' % number for number in range(5000))
        + b"]}"
    )

    async def pieces() -> AsyncIterator[bytes]:
        for begin in range(0, len(jobs), 1000):
            yield jobs[begin : begin + 1000]

    headers = {"Authorization": f"Bearer {api.key}", "Content-Type": "application/json"}
    async with api._session.post(f"{api.url}/jobs", data=pieces(), headers=headers) as response:
        assert response.status == 200


@pytest.mark.parametrize("sent", [b"", b"GET", BEGIN, BEGIN + b"\r\nG"])
async def test_a_silent_client_does_not_hold_its_connection(
    api: Api, monkeypatch: pytest.MonkeyPatch, sent: bytes
) -> None:
    monkeypatch.setattr(bounded_connection, "HEAD_SECONDS", 0.2)
    async with connected(api) as (reader, writer):
        writer.write(sent)
        async with asyncio.timeout(30):
            await reader.read()


async def test_a_body_that_comes_too_slowly_is_refused(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "BODY_SECONDS", 0.2)
    head = f"POST /api/v1/claims HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {api.key}\r\n"
    async with connected(api) as (reader, writer):
        writer.write(head.encode() + b"Content-Type: application/json\r\nContent-Length: 100000\r\n\r\n{")
        async with asyncio.timeout(30):
            answer = await reader.read()
    assert answer.startswith(b"HTTP/1.1 400") and b"too slowly" in answer
    assert (await api.get("/health/live"))["status"]


async def test_a_body_that_comes_steadily_may_take_its_time(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    periods: list[int] = []
    check = BoundedConnection._check_body

    def checked(connection: BoundedConnection, least: int) -> None:
        periods.append(least)
        check(connection, least)

    monkeypatch.setattr(bounded_connection, "BODY_SECONDS", 0.05)
    monkeypatch.setattr(bounded_connection, "LEAST_BODY", 1)
    monkeypatch.setattr(BoundedConnection, "_check_body", checked)

    async def pieces() -> AsyncIterator[bytes]:
        yield b'{"jobs": ['
        while len(periods) < 3:
            yield b" " * 100
            await asyncio.sleep(0)
        yield b"]}"

    headers = {"Authorization": f"Bearer {api.key}", "Content-Type": "application/json"}
    async with api._session.post(f"{api.url}/jobs", data=pieces(), headers=headers) as response:
        assert response.status == 200


async def test_a_client_that_does_not_read_its_answer_is_dropped(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_connection, "ANSWER_SECONDS", 0.2)
    dropped = asyncio.Event()
    abort = BoundedConnection._check_reading

    def checked(connection: BoundedConnection, unread: int) -> None:
        abort(connection, unread)
        if connection.transport.is_closing():
            dropped.set()

    monkeypatch.setattr(BoundedConnection, "_check_reading", checked)
    text = "x" * 100_000
    jobs = [NewJob(run="r", kind="page", key=str(n), payload={"text": text}) for n in range(400)]
    await api.served.queue.submit(jobs)
    head = f"GET /api/v1/jobs?limit=400 HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {api.key}\r\n\r\n"
    async with connected(api) as (_, writer):
        writer.write(head.encode())
        async with asyncio.timeout(60):
            await dropped.wait()
    assert (await api.get("/health/live"))["status"]


@pytest.mark.parametrize("origin", ["http://[", "http://[::1", "[", "://", "http://a]b"])
async def test_an_origin_that_is_none_is_refused(api: Api, origin: str) -> None:
    status, _ = await api.send("POST", "/claims", {}, headers={"Origin": origin})
    assert status == 403


def test_keys_are_masked_wherever_they_are_written(tmp_path: Path) -> None:
    key = KeyStore(tmp_path / "keys.json").add("anna", [Scope.WORK], 0.0)
    assert mask_text(f"{{'authorization': 'Bearer {key}'}} {key}").count("***") == 2
    assert key[-20:] not in mask_text(f"a dict has {key!r} and {key}, too")


def test_no_other_user_enters_the_data_folder_of_a_server(tmp_path: Path) -> None:
    KeyStore.in_folder(tmp_path / ".longshore").add("anna", [Scope.WORK], 0.0)
    for folder in (tmp_path / ".longshore", tmp_path / ".longshore" / "server"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
