"""The answers that a child process gets from its worker."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from longshore.errors import ProcessingError, QueueFullError
from longshore.pacing.contract import HostClosedError, Limiter, Unlimited
from longshore.scrape.proxies import NoProxyError, ProxySource
from longshore.scrape.tor import Tor
from longshore.worker.children.remote_tools import RemoteLimiter, RemoteProxies
from longshore.worker.children.rpc_client import RpcClient
from longshore.worker.children.rpc_server import RpcServer
from longshore.worker.children.wire import ChildNotice, ChildRequest, FromChild
from longshore.worker.kit.child_tools import ChildTools
from longshore.worker.kit.config import KitConfig


class FailingLimiter(Unlimited):
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        raise self._error


class NoProxies:
    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> None:
        raise NoProxyError("all rest", timedelta(seconds=90))


class FailingShared:
    def __init__(self, error: Exception) -> None:
        self.limiter: Limiter = FailingLimiter(error)
        self.is_submitted: Callable[[str, str], Awaitable[bool]] = self._is_submitted

    async def _is_submitted(self, run: str, host: str) -> bool:
        raise NotImplementedError

    def proxy_source(self) -> ProxySource:
        return NoProxies()  # type: ignore[return-value]

    def own_tor(self) -> Tor:
        raise NotImplementedError

    def browser_recycled(self, reason: str, count: int) -> None:
        raise NotImplementedError


def client_of(error: Exception) -> RpcClient:
    """Return a client whose server fails with this error."""
    loop = asyncio.get_running_loop()

    def send(frame: FromChild) -> None:
        assert isinstance(frame, ChildRequest)
        loop.call_soon(server.requested, frame)

    client = RpcClient(send)
    server = RpcServer(FailingShared(error), client.replied)
    return client


async def test_a_host_that_is_closed_is_the_same_error_as_in_the_worker() -> None:
    closed = HostClosedError("a.org", 3600, "it answered 429 with Retry-After")
    with pytest.raises(HostClosedError) as caught:
        await RemoteLimiter(client_of(closed)).slot("a.org", patience=30)
    assert (str(caught.value), caught.value.seconds, caught.value.why) == (str(closed), 3600, closed.why)


async def test_that_no_proxy_is_left_is_the_same_error_as_in_the_worker() -> None:
    with pytest.raises(NoProxyError, match="all rest") as caught:
        await RemoteProxies(client_of(ValueError())).acquire("a.org")
    assert caught.value.retry_in == timedelta(seconds=90)


@pytest.mark.parametrize("error", [QueueFullError("the disk is full"), ValueError("the disk is full")])
async def test_a_child_learns_of_whatever_goes_wrong_in_the_worker(error: Exception) -> None:
    with pytest.raises(ProcessingError, match="the disk is full"):
        await RemoteLimiter(client_of(error)).slot("a.org", patience=30)


def test_browsers_that_a_child_replaced_are_counted_by_the_worker() -> None:
    class Counting(FailingShared):
        def __init__(self) -> None:
            super().__init__(ValueError())
            self.recycled: list[tuple[str, int]] = []

        def browser_recycled(self, reason: str, count: int) -> None:
            self.recycled.append((reason, count))

    shared = Counting()
    server = RpcServer(shared, lambda _: None)
    server.notified(ChildNotice("browser_recycled", ("pages", 2)))
    assert shared.recycled == [("pages", 2)]


def test_a_child_tells_each_replaced_browser_once() -> None:
    sent: list[FromChild] = []
    tools = ChildTools(KitConfig(), RpcClient(sent.append))
    tools.tell_recycled()
    browsers = SimpleNamespace(recycled={"pages": 1})
    tools._browsers = cast("Any", browsers)
    tools.tell_recycled()
    browsers.recycled = {"pages": 3, "memory": 1}
    tools.tell_recycled()
    tools.tell_recycled()
    told = [(each.name, *each.arguments) for each in sent if isinstance(each, ChildNotice)]
    assert told == [
        ("browser_recycled", "pages", 1),
        ("browser_recycled", "pages", 2),
        ("browser_recycled", "memory", 1),
    ]
