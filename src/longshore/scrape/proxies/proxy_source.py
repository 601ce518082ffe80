"""Who gives out proxies, whatever stands behind it: a pool of them, Tor, another process."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Protocol

from longshore.scrape.proxies.blame import Blame
from longshore.scrape.proxies.proxy_file import Proxy


class TakenProxy(Protocol):
    """One request's turn with a proxy. Whoever took it ends it, by one of these; the first one counts."""

    @property
    def proxy(self) -> Proxy:
        """The proxy; as text it is safe to show."""

    def answered(self, status: int) -> None:
        """The site, or the proxy in its place, answered so."""

    def blocked(self, why: str) -> None:
        """What came is not the page but a way to turn us away."""

    def succeeded(self) -> None:
        """The site served the page."""

    def failed(self, error: BaseException) -> None:
        """The request ended with this error."""

    def judged(self, blame: Blame, why: str) -> None:
        """Whoever made the request has found out who is to blame."""

    def give_back(self) -> None:
        """End the turn without a verdict."""


class ProxySource(Protocol):
    """Gives out proxies, one request at a time."""

    async def acquire(
        self, host: str, *, session: str = "", within: timedelta | None = None, prefer: Sequence[str] = ()
    ) -> TakenProxy:
        """A turn with a proxy for one request to this host, with one of `prefer` (URLs) where that does not rest.

        Raises `NoProxyError` where none will be back in time.
        """
