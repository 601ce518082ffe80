"""Idle connections are kept for a limited number of the most recently used hosts."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator

import pytest

from longshore.scrape.http import connections
from longshore.scrape.http.address_policy import AddressPolicy
from longshore.scrape.http.request import Request
from longshore.scrape.http.transport import AiohttpTransport, TransferLimits


class Host:
    """A host that counts its open connections and all it ever had."""

    def __init__(self) -> None:
        self.url = ""
        self.open: set[asyncio.BaseTransport] = set()
        self.ever = 0
        self.closed = asyncio.Event()

    def visit(self) -> asyncio.Protocol:
        host = self

        class Visit(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                assert isinstance(transport, asyncio.Transport)
                self.transport = transport
                host.open.add(transport)
                host.ever += 1

            def data_received(self, data: bytes) -> None:
                self.transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

            def connection_lost(self, error: Exception | None) -> None:
                host.open.discard(self.transport)
                host.closed.set()

        return Visit()


@pytest.fixture
async def hosts() -> AsyncIterator[list[Host]]:
    """Ports of this machine: to the connector each is a separate host."""
    hosts = [Host() for _ in range(8)]
    servers = []
    for host in hosts:
        server = await asyncio.get_running_loop().create_server(host.visit, "127.0.0.1", 0)
        host.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
        servers.append(server)
    yield hosts
    for server in servers:
        server.close()


@pytest.mark.ledger("E13")
async def test_a_crawl_of_many_hosts_keeps_connections_to_the_last_of_them(
    hosts: list[Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_KEPT", 3)
    transport = AiohttpTransport(TransferLimits(), "agent", AddressPolicy(["127.0.0.1"]))
    for host in hosts:
        assert (await transport.send(Request("GET", host.url), None, None)).status == 200
    for host in hosts[:5]:
        await asyncio.wait_for(host.closed.wait(), 10)
    assert [len(host.open) for host in hosts] == [0, 0, 0, 0, 0, 1, 1, 1]
    for host in hosts[5:]:
        await transport.send(Request("GET", host.url), None, None)
    assert [host.ever for host in hosts] == [1] * 8
    await transport.close()


async def test_a_host_that_is_asked_again_counts_as_asked_last(
    hosts: list[Host], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "MOST_KEPT", 2)
    transport = AiohttpTransport(TransferLimits(), "agent", AddressPolicy(["127.0.0.1"]))
    first, second, third = hosts[:3]
    for host in (first, second, first, third):
        await transport.send(Request("GET", host.url), None, None)
    await asyncio.wait_for(second.closed.wait(), 10)
    assert len(first.open) == len(third.open) == 1
    await transport.close()


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
@pytest.mark.parametrize(("allowed", "kept"), [(1024, 512), (1_000_000, connections.MOST_KEPT), (-1, 5_000)])
def test_half_of_what_may_be_open_is_left_for_other_things(
    monkeypatch: pytest.MonkeyPatch, allowed: int, kept: int
) -> None:
    import resource

    monkeypatch.setattr(resource, "getrlimit", lambda _: (allowed, allowed))
    assert connections.most_kept() == kept
