"""The interface of a source of proxies: a pool, Tor, or another process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from longshore.scrape.proxies.blame import Blame
from longshore.scrape.proxies.proxy_file import Proxy


class TakenProxy(Protocol):
    """The use of a proxy for one request. The caller reports one outcome; the first report counts."""

    @property
    def proxy(self) -> Proxy:
        """The proxy; its text form masks the password."""

    def answered(self, status: int) -> None:
        """Report the status that the site or the proxy answered."""

    def blocked(self, why: str) -> None:
        """Report that the site blocked us with a page, for example a captcha."""

    def succeeded(self) -> None:
        """Report that the site served the page."""

    def failed(self, error: BaseException) -> None:
        """Report the error of the request."""

    def judged(self, blame: Blame, why: str) -> None:
        """Report a failure whose cause the caller knows."""

    def give_back(self) -> None:
        """Give the proxy back without an outcome."""


class ProxySource(Protocol):
    """A source that gives out a proxy for each request."""

    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> TakenProxy:
        """Take a proxy for one request to `host`: the first of `prefer` (URLs) that does not rest, else any.

        Raise `NoProxyError` if no proxy will be back within `within`.
        """
