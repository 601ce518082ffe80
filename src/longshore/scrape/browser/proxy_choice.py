"""The choice of the proxy that the browsers of a process go through: one proxy until it fails, then another.

A browser keeps its proxy, so that a site sees one address for one set of cookies. If a page must be opened through
another proxy, it moves to a tab of another browser first.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from longshore.pacing.contract import HostClosedError
from longshore.scrape.browser.browser_pool import BrowserPool, Condition, PooledBrowser
from longshore.scrape.browser.driver import Tab
from longshore.url import mask_url

if TYPE_CHECKING:
    from longshore.scrape.proxies import ProxySource, TakenProxy

_ANY_HOST = ""

CurrentProxy = Callable[[], Awaitable[str]]
"""Returns the URL of the proxy to use now: the URL of a Tor changes when Tor is started again."""


class ProxyChoice:
    """The proxy that new pages of this process use."""

    def __init__(
        self,
        pool: BrowserPool,
        proxy: str | None,
        source: ProxySource | None,
        current_proxy: CurrentProxy | None = None,
    ) -> None:
        """Pages use `proxy`, or a proxy from `source`, or the one `current_proxy` returns; without all three, none."""
        self._pool = pool
        self._source = source
        self._current_proxy = current_proxy
        self._proxy = proxy
        self._trusted: str | None = None
        """A proxy that has not failed since it was chosen."""

    async def take(self, *, fresh: bool, patience: float) -> BrowserProxy:
        """Return a tab for a page whose host is not known yet."""
        if self._source is not None and self._proxy is None:
            taken = await self._acquire(self._source, _ANY_HOST, patience, ())
            taken.give_back()
            self._proxy = self._trusted = taken.proxy.url
        elif self._current_proxy is not None and (now := await self._current_proxy()) != self._proxy:
            self._proxy = now
            self._pool.retire_others(now)
        proxy = self._proxy
        pooled, tab = await self._pool.take(fresh=fresh, proxy=proxy)
        return BrowserProxy(self, self._pool, proxy, pooled, tab, fresh=fresh)

    async def acquire(self, host: str, stay: str | None, patience: float) -> TakenProxy | None:
        """Take a proxy for one page of `host`: the proxy `stay` if it does not rest; None without a proxy source."""
        if self._source is None:
            return None
        prefer = [proxy for proxy in (stay, self._trusted) if proxy is not None]
        taken = await self._acquire(self._source, host, patience, prefer)
        if taken.proxy.url != stay:
            self._proxy = self._trusted = taken.proxy.url
            self._pool.retire_others(self._proxy)
        return taken

    def failed(self, proxy: str) -> None:
        """Record that a page failed through `proxy`: the next page may use another one."""
        if self._trusted == proxy:
            self._trusted = None

    @staticmethod
    async def _acquire(source: ProxySource, host: str, patience: float, prefer: Sequence[str]) -> TakenProxy:
        from longshore.scrape.proxies import NoProxyError

        try:
            return await source.acquire(host, within=timedelta(seconds=patience), prefer=prefer)
        except NoProxyError as error:
            raise HostClosedError(host or "every host", error.retry_in.total_seconds(), str(error)) from error


class BrowserProxy:
    """The tab that a page is in, and the proxy that its browser goes through."""

    def __init__(
        self,
        choice: ProxyChoice,
        pool: BrowserPool,
        proxy: str | None,
        pooled: PooledBrowser,
        tab: Tab,
        *,
        fresh: bool,
    ) -> None:
        self._choice = choice
        self._pool = pool
        self._fresh = fresh
        self._pooled: PooledBrowser | None = pooled
        self._proxy = proxy
        self._stays = False
        self.tab = tab

    @property
    def identity(self) -> str:
        """The proxy that sites see, with its password masked; empty without a proxy."""
        return "" if self._proxy is None else mask_url(self._proxy)

    async def acquire(self, host: str, patience: float) -> TakenProxy | None:
        """Take a proxy for one page of `host` and move to a tab that goes through it; None without a proxy source."""
        taken = await self._choice.acquire(host, self._proxy if self._stays else None, patience)
        if taken is not None and taken.proxy.url != self._proxy:
            try:
                await self._move(taken.proxy.url)
            except BaseException:
                taken.give_back()
                raise
        self._stays = taken is not None
        return taken

    def failed(self) -> None:
        """Record that the last page was blocked or did not load."""
        self._stays = False
        if self._proxy is not None:
            self._choice.failed(self._proxy)

    def give_back(self, condition: Condition) -> None:
        """Give the tab back to the pool."""
        pooled, self._pooled = self._pooled, None
        if pooled is not None:
            self.tab.allow(None)
            self._pool.give_back(pooled, self.tab, condition)

    async def _move(self, proxy: str) -> None:
        # DOUBTFUL closes the tab: another job must not see its page. Its browser is usually retired anyway.
        self.give_back(Condition.DOUBTFUL)
        self._pooled, self.tab = await self._pool.take(fresh=self._fresh, proxy=proxy)
        self._proxy = proxy
