"""Bodies that are compressed, cut short, or behind long headers and bad certificates, with both transports."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import struct
import sys
import zlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import brotli
import pytest
import zstandard
from tests.linear_time import assert_linear
from tests.scrape.test_http_strange import saying

from longshore.errors import ConnectionFailedError, ProcessingError
from longshore.scrape.http import content_encoding
from longshore.scrape.http.client import Http
from longshore.scrape.http.content_encoding import BodyTooLargeError, CutError, NotDecodableError, unpack

PAGE = b"hello hello hello hello"
BROTLI = brotli.compress(PAGE)
GZIP = gzip.compress(PAGE, mtime=0)  # the same bytes in every process: they name the test
ZSTD = zstandard.ZstdCompressor().compress(PAGE)
TransportName = Literal["aiohttp", "curl"]
both_transports = pytest.mark.parametrize("transport", ["aiohttp", "curl"])


# Made for these tests: a certificate for 127.0.0.1 that its own key signed.
SELF_SIGNED = """\
-----BEGIN CERTIFICATE-----
MIIBfzCCASWgAwIBAgIUDnIGD+cfmVJGQNwHrkwExo5LCqowCgYIKoZIzj0EAwIw
FDESMBAGA1UEAwwJMTI3LjAuMC4xMCAXDTI2MTExODA4Mjc1M1oYDzIxMjYxMDI1
MDgyNzUzWjAUMRIwEAYDVQQDDAkxMjcuMC4wLjEwWTATBgcqhkjOPQIBBggqhkjO
PQMBBwNCAATY9Y7lEhBZyJ1EWOs/22aeobVZtWIXSOKT0MBs0yk3oRiMipckG5Ap
TE/YrbA7yqkjTK7tJuhbNt5RtiqOuAQxo1MwUTAdBgNVHQ4EFgQUL/6kPAteRWWO
ilouySE4Pooh9JEwHwYDVR0jBBgwFoAUL/6kPAteRWWOilouySE4Pooh9JEwDwYD
VR0TAQH/BAUwAwEB/zAKBggqhkjOPQQDAgNIADBFAiAiBgBrZlMBrzVsfms4ANxe
KlWapt1RsYif+BhfTJPhWAIhANhp1P2Xd87EworBCX6p5p48SA0udLwePAYzR58S
NC5n
-----END CERTIFICATE-----
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg6htbrXDxy6iue4cv
rXIup02T66VnCl4fq2wefkVHEguhRANCAATY9Y7lEhBZyJ1EWOs/22aeobVZtWIX
SOKT0MBs0yk3oRiMipckG5ApTE/YrbA7yqkjTK7tJuhbNt5RtiqOuAQx
-----END PRIVATE KEY-----
"""


def client(transport: TransportName) -> Http:
    return Http(transport=transport, robots=False, retries=0)


def answer(body: bytes, *headers: str, length: bool = True) -> bytes:
    lines = ["HTTP/1.1 200 OK", *headers, *([f"Content-Length: {len(body)}"] if length else ["Connection: close"])]
    return "\r\n".join([*lines, "", ""]).encode() + body


@asynccontextmanager
async def breaking(beginning: bytes, *, reset: bool) -> AsyncIterator[str]:
    """Run a server that sends the beginning of a response and then closes or resets the connection; yield its URL."""

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(beginning)
        await writer.drain()
        if reset:
            plain: socket.socket = writer.get_extra_info("socket")
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        writer.close()

    server = await asyncio.start_server(accept, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/x"
    finally:
        server.close()


@both_transports
async def test_a_body_cut_by_a_reset_is_not_a_page(transport: TransportName) -> None:
    http = client(transport)
    async with breaking(answer(b"half a page", length=False), reset=True) as url:
        with pytest.raises(ConnectionFailedError, match="could not be fetched"):
            await http.get(url)
    await http.close()


@both_transports
async def test_a_body_that_ends_with_its_connection_is_a_page(transport: TransportName) -> None:
    http = client(transport)
    async with breaking(answer(PAGE, length=False), reset=False) as url:
        assert (await http.get(url)).body == PAGE
    await http.close()


@both_transports
@pytest.mark.parametrize(
    ("encoding", "body"),
    [
        ("gzip", GZIP),
        ("x-gzip", GZIP),
        ("GZIP", GZIP),
        ("deflate", zlib.compress(PAGE)),
        ("deflate", zlib.compress(PAGE)[2:-4]),
        ("zstd", ZSTD),
        ("br", BROTLI),
        ("gzip, zstd", zstandard.ZstdCompressor().compress(GZIP)),
        ("identity", PAGE),
    ],
)
async def test_a_compressed_body_is_unpacked(transport: TransportName, encoding: str, body: bytes) -> None:
    http = client(transport)
    async with saying(answer(body, f"Content-Encoding: {encoding}")) as (url, _):
        assert (await http.get(url)).body == PAGE
    await http.close()


async def test_without_the_package_brotli_the_error_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    http = client("aiohttp")
    async with saying(answer(BROTLI, "Content-Encoding: br")) as (url, _):
        with pytest.raises(ProcessingError, match=r"pip install '\.\[brotli\]'") as caught:
            await http.get(url)
    await http.close()
    assert not caught.value.retryable


def test_we_ask_only_for_what_we_can_unpack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "brotli", None)
    assert content_encoding.accepted() == "gzip, deflate, zstd"
    monkeypatch.undo()
    assert content_encoding.accepted() == "gzip, deflate, br, zstd"


@both_transports
async def test_a_body_that_is_not_what_it_says_is_a_failed_connection(transport: TransportName) -> None:
    http = client(transport)
    async with saying(answer(b"not compressed", "Content-Encoding: gzip")) as (url, _):
        with pytest.raises(ConnectionFailedError, match="could not be fetched"):
            await http.get(url)
    await http.close()


@both_transports
@pytest.mark.parametrize("encoding", ["gzip", "deflate", "br", "zstd", "gzip, gzip"])
async def test_a_decompression_bomb_is_too_large(transport: TransportName, encoding: str) -> None:
    bomb = bytes(20_000_000)
    packed = {
        "gzip": gzip.compress(bomb),
        "deflate": zlib.compress(bomb),
        "br": brotli.compress(bomb),
        "zstd": zstandard.ZstdCompressor().compress(bomb),
        "gzip, gzip": gzip.compress(gzip.compress(bomb)),
    }
    http = Http(transport=transport, robots=False, max_bytes=100_000)
    async with saying(answer(packed[encoding], f"Content-Encoding: {encoding}")) as (url, _):
        with pytest.raises(ProcessingError, match="larger than 100,000 bytes"):
            await http.get(url)
    await http.close()


@pytest.mark.parametrize(
    ("encoding", "body"), [("gzip", GZIP), ("br", BROTLI), ("zstd", ZSTD), ("deflate", zlib.compress(PAGE))]
)
def test_a_compressed_body_that_ends_too_early_is_cut_if_nothing_else_tells_its_end(encoding: str, body: bytes) -> None:
    assert PAGE.startswith(unpack(body[:-1], encoding, 1000, may_be_cut=False))
    with pytest.raises(CutError):
        unpack(body[:-1], encoding, 1000, may_be_cut=True)
    assert unpack(body, encoding, len(PAGE), may_be_cut=True) == PAGE
    with pytest.raises(BodyTooLargeError):
        unpack(body, encoding, len(PAGE) - 1, may_be_cut=False)
    assert unpack(b"", encoding, 1000, may_be_cut=True) == b"", "the answer to HEAD has no body"


def test_a_body_may_be_packed_in_parts() -> None:
    halves = PAGE[:7], PAGE[7:]
    for encoding, pack in (("gzip", gzip.compress), ("zstd", zstandard.ZstdCompressor().compress)):
        assert unpack(b"".join(map(pack, halves)), encoding, 1000, may_be_cut=True) == PAGE
    assert unpack(GZIP + bytes(100), "gzip", 1000, may_be_cut=True) == PAGE, "padding"


@pytest.mark.parametrize(
    ("encoding", "part"),
    [("gzip", gzip.compress(b"", mtime=0)), ("zstd", zstandard.ZstdCompressor().compress(b"")), ("gzip", GZIP)],
)
def test_a_body_of_many_tiny_parts_is_unpacked_in_linear_time(encoding: str, part: bytes) -> None:
    assert_linear(lambda body: unpack(body, encoding, 10_000_000, may_be_cut=True), lambda n: part * n, small=10_000)


def test_a_body_packed_again_and_again_is_refused() -> None:
    with pytest.raises(NotDecodableError, match="6 times"):
        unpack(b"x", ", ".join(["gzip"] * 6), 1000, may_be_cut=False)


@both_transports
async def test_long_headers_are_read(transport: TransportName) -> None:
    http = client(transport)
    policy, moved = "x" * 60_000, "y" * 20_000
    redirect = f"HTTP/1.1 302 Found\r\nLocation: /{moved}\r\nContent-Length: 0\r\n\r\n".encode()
    async with saying(redirect, answer(PAGE, f"Content-Security-Policy: {policy}")) as (url, asked):
        page = await http.get(url)
    await http.close()
    assert page.headers["content-security-policy"] == policy
    assert asked[1] == f"GET /{moved} HTTP/1.1".encode()


@both_transports
async def test_a_bad_certificate_is_a_failed_connection_and_worth_another_try(
    transport: TransportName, tmp_path: Path
) -> None:
    (tmp_path / "site.pem").write_text(SELF_SIGNED)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "site.pem")
    server = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0, ssl=context)
    http = client(transport)
    with pytest.raises(ConnectionFailedError, match=r"(?i)certificate") as caught:
        await http.get(f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/")
    assert caught.value.retryable
    await http.close()
    server.close()
