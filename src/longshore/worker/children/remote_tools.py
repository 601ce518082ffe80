"""The tools of the worker as a child process uses them: each call goes to the worker (see `rpc_client`)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta

from longshore.errors import SnoozeError
from longshore.pacing.contract import HostClosedError
from longshore.scrape.proxies import Blame, NoProxyError, blame_of
from longshore.scrape.proxies.blame import blame_for_status, in_words, status_in_words, status_of
from longshore.scrape.proxies.proxy_file import Proxy
from longshore.worker.children.rpc_client import RpcClient


class RemoteLimiter:
    """The worker's limiter."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client

    async def slot(self, host: str, identity: str = "", *, patience: float) -> None:
        """As `Limiter.slot`."""
        try:
            await self._client.call("slot", host, identity, patience)
        except SnoozeError as error:
            why = str(error).partition(" s: ")[2] or str(error)
            raise HostClosedError(host, error.snooze.total_seconds(), why) from error

    def answered(self, host: str, identity: str, status: int | None, retry_after: float | None, seconds: float) -> None:
        """As `Limiter.answered`."""
        self._client.notify("answered", host, identity, status, retry_after, seconds)

    def crawl_delay(self, host: str, seconds: float) -> None:
        """As `Limiter.crawl_delay`."""
        self._client.notify("crawl_delay", host, seconds)


class RemoteProxies:
    """The worker's proxies, for async code."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client

    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> RemoteProxy:
        """As `ProxyPool.acquire`."""
        limit = None if within is None else within.total_seconds()
        try:
            number, url = await self._client.call("proxy", host, session, limit, prefer)
        except SnoozeError as error:
            raise NoProxyError(str(error), error.snooze) from error
        return RemoteProxy(self._client, number, Proxy(url))


class RemoteSyncProxies:
    """The worker's proxies, for plain handlers: `with kit.proxies.turn(host) as turn`."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client

    @contextmanager
    def turn(self, host: str, *, session: str = "", within: timedelta | None = None) -> Iterator[RemoteProxy]:
        """As `ProxyPool.turn`."""
        limit = None if within is None else within.total_seconds()
        number, url = self._client.call_blocking("proxy", host, session, limit, ())
        turn = RemoteProxy(self._client, number, Proxy(url))
        try:
            yield turn
        except BaseException as error:
            turn.failed(error)
            raise
        else:
            turn.succeeded()


class RemoteTor:
    """The worker's own Tor, for plain handlers."""

    def __init__(self, client: RpcClient) -> None:
        self._client = client

    def proxy(self, session: str = "") -> str:
        """As `Tor.proxy`."""
        return str(self._client.call_blocking("tor", session))

    def new_identity(self, session: str | None = None) -> None:
        """As `Tor.new_identity`."""
        self._client.call_blocking("new_identity", session)


class RemoteProxy:
    """One of the worker's proxies, taken for one request. The first verdict counts."""

    def __init__(self, client: RpcClient, number: int, proxy: Proxy) -> None:
        self._client = client
        self._number = number
        self._over = False
        self.proxy = proxy
        """Safe to show as text."""

    @property
    def url(self) -> str:
        """The URL for HTTP clients, password included."""
        return self.proxy.url

    def answered(self, status: int) -> None:
        """As `TakenProxy.answered`."""
        blame = blame_for_status(status)
        if blame is None:
            self.succeeded()
        else:
            self._end(blame.value, f"answered {status_in_words(status)}")

    def judged(self, blame: Blame, why: str) -> None:
        """As `TakenProxy.judged`."""
        self._end(blame.value, why)

    def blocked(self, why: str) -> None:
        """As `TakenProxy.blocked`."""
        self._end(Blame.SITE.value, why)

    def succeeded(self) -> None:
        """As `TakenProxy.succeeded`."""
        self._end("", "")

    def failed(self, error: BaseException) -> None:
        """As `TakenProxy.failed`."""
        if (status := status_of(error)) is not None:
            self.answered(status)
        elif (blame := blame_of(error)) is None:
            self.give_back()
        else:
            self._end(blame.value, in_words(error))

    def give_back(self) -> None:
        """As `TakenProxy.give_back`."""
        self._end(None, "")

    def _end(self, blame: str | None, why: str) -> None:
        if not self._over:
            self._over = True
            self._client.notify("verdict", self._number, blame, why)
