"""The types of the kit's tools that have more than one implementation: over the network, offline, in a child process.

`Async` ones are for `async def` handlers, `Sync` ones for plain `def` handlers, which call them without await.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import timedelta
from typing import Protocol, Unpack

from longshore.scrape.http.fetch_all import AT_ONCE
from longshore.scrape.http.request import BodyOptions, Options
from longshore.scrape.http.response import Response
from longshore.scrape.proxies.proxy_source import TakenProxy


class AsyncFetcher(Protocol):
    """The HTTP client of async handlers."""

    async def get(self, url: str, **options: Unpack[Options]) -> Response:
        """Fetch a URL, following redirects. See `request`."""

    async def get_all(
        self, urls: Iterable[str], *, at_once: int = AT_ONCE, **options: Unpack[Options]
    ) -> list[Response]:
        """Fetch many URLs, `at_once` at a time, and return their responses in the same order.

        Raises the first error, as `request` does, and cancels the other requests.
        """

    async def post(self, url: str, **options: Unpack[BodyOptions]) -> Response:
        """Send a body (`data` or `json`) to a URL. It is sent once and never retried. See `request`."""

    async def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """Send a request of any method, following redirects. `BodyOptions` lists the options.

        Raises `StatusError` for a status of 400 and above, unless `check` is off, and the errors that
        `AttemptHttp.request` names.
        """


class SyncFetcher(Protocol):
    """The HTTP client of plain handlers."""

    def get(self, url: str, **options: Unpack[Options]) -> Response:
        """As `AsyncFetcher.get`."""

    def get_all(self, urls: Iterable[str], *, at_once: int = AT_ONCE, **options: Unpack[Options]) -> list[Response]:
        """As `AsyncFetcher.get_all`."""

    def post(self, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AsyncFetcher.post`."""

    def request(self, method: str, url: str, **options: Unpack[BodyOptions]) -> Response:
        """As `AsyncFetcher.request`."""


class HandlerProxy(TakenProxy, Protocol):
    """The use of one proxy for one request."""

    @property
    def url(self) -> str:
        """The URL of the proxy, with its password, as HTTP clients take it."""


class SyncProxies(Protocol):
    """The worker's proxies, for plain handlers."""

    def turn(
        self, host: str, *, session: str = "", within: timedelta | None = None
    ) -> AbstractContextManager[HandlerProxy]:
        """As `ProxyPool.turn`: `with kit.proxies.turn(host) as turn`."""


class SyncTorSessions(Protocol):
    """The worker's own Tor, for plain handlers."""

    def proxy(self, session: str = "") -> str:
        """As `Tor.proxy`."""

    def new_identity(self, session: str | None = None) -> None:
        """As `Tor.new_identity`."""
