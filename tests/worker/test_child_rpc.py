"""What a child process is told by the worker it asks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest

from longshore.errors import ProcessingError, QueueFullError
from longshore.pacing.contract import HostClosedError, Limiter, Unlimited
from longshore.scrape.proxies import NoProxyError, ProxySource
from longshore.scrape.tor import Tor
from longshore.worker.children.child_rpc import ChildServer, RemoteLimiter, RemoteProxies, WorkerConnection
from longshore.worker.children.wire import ChildRequest, FromChild


class FailingPace(Unlimited):
    def __init__(self, error: Exception) -> None:
        self._error = error

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        raise self._error


class NoTurns:
    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> None:
        raise NoProxyError("all rest", timedelta(seconds=90))


class FailingShared:
    def __init__(self, error: Exception) -> None:
        self.pace: Limiter = FailingPace(error)

    def turns(self) -> ProxySource:
        return NoTurns()  # type: ignore[return-value]

    def own_tor(self) -> Tor:
        raise NotImplementedError


def line_to(error: Exception) -> WorkerConnection:
    """A line whose other end fails so."""
    loop = asyncio.get_running_loop()

    def send(frame: FromChild) -> None:
        assert isinstance(frame, ChildRequest)
        loop.call_soon(desk.called, frame)

    line = WorkerConnection(send)
    desk = ChildServer(FailingShared(error), line.replied)
    return line


async def test_a_host_that_is_closed_is_the_same_error_as_in_the_worker() -> None:
    closed = HostClosedError("a.org", 3600, "it answered 429 with Retry-After")
    with pytest.raises(HostClosedError) as caught:
        await RemoteLimiter(line_to(closed)).slot("a.org", patience=30)
    assert (str(caught.value), caught.value.seconds, caught.value.why) == (str(closed), 3600, closed.why)


async def test_that_no_proxy_is_left_is_the_same_error_as_in_the_worker() -> None:
    with pytest.raises(NoProxyError, match="all rest") as caught:
        await RemoteProxies(line_to(ValueError())).acquire("a.org")
    assert caught.value.retry_in == timedelta(seconds=90)


@pytest.mark.parametrize("error", [QueueFullError("the disk is full"), ValueError("the disk is full")])
async def test_a_child_learns_of_whatever_goes_wrong_in_the_worker(error: Exception) -> None:
    with pytest.raises(ProcessingError, match="the disk is full"):
        await RemoteLimiter(line_to(error)).slot("a.org", patience=30)
