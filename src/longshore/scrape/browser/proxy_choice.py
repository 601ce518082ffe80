"""Which proxy the browsers of a process go through: one for as long as it serves, then another.

A browser keeps to its proxy, so that a site sees one address for one set of cookies. A page that is to be opened by way
of another one moves to another browser, before it is opened.
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

Way = Callable[[], Awaitable[str]]
"""Says which proxy it is now, by its URL: that of a Tor changes when it had to be started again."""


class ProxyChoice:
    """The proxy of the moment, for all pages of a process."""

    def __init__(
        self, keeper: BrowserPool, proxy: str | None, turns: ProxySource | None, way: Way | None = None
    ) -> None:
        """Every page goes through `proxy`, one that `turns` gives out, or what `way` names; else through none."""
        self._keeper = keeper
        self._turns = turns
        self._way = way
        self._proxy = proxy
        self._trusted: str | None = None
        """A proxy that has not failed since it was chosen."""

    async def take(self, *, fresh: bool, patience: float) -> BrowserProxy:
        """A tab, of which nobody knows yet what it will open."""
        if self._turns is not None and self._proxy is None:
            turn = await self._acquire(self._turns, _ANY_HOST, patience, ())
            turn.give_back()
            self._proxy = self._trusted = turn.proxy.url
        elif self._way is not None and (now := await self._way()) != self._proxy:
            self._proxy = now
            self._keeper.retire_others(now)
        proxy = self._proxy
        kept, tab = await self._keeper.take(fresh=fresh, proxy=proxy)
        return BrowserProxy(self, self._keeper, proxy, kept, tab, fresh=fresh)

    async def turn(self, host: str, stay: str | None, patience: float) -> TakenProxy | None:
        """A turn for a page of this host, with the proxy `stay` if that is open; None where there is no choice."""
        if self._turns is None:
            return None
        turn = await self._acquire(self._turns, host, patience, [p for p in (stay, self._trusted) if p is not None])
        if turn.proxy.url != stay:
            self._proxy = self._trusted = turn.proxy.url
            self._keeper.retire_others(self._proxy)
        return turn

    def failed(self, proxy: str) -> None:
        """The site turned the proxy away, or did not come through it: whoever is next may choose another."""
        if self._trusted == proxy:
            self._trusted = None

    @staticmethod
    async def _acquire(turns: ProxySource, host: str, patience: float, prefer: Sequence[str]) -> TakenProxy:
        from longshore.scrape.proxies import NoProxyError

        try:
            return await turns.acquire(host, within=timedelta(seconds=patience), prefer=prefer)
        except NoProxyError as error:
            raise HostClosedError(host or "every host", error.retry_in.total_seconds(), str(error)) from error


class BrowserProxy:
    """Where a page is: a tab of a browser, and the proxy that this goes through."""

    def __init__(
        self, exits: ProxyChoice, keeper: BrowserPool, proxy: str | None, kept: PooledBrowser, tab: Tab, *, fresh: bool
    ) -> None:
        self._exits = exits
        self._keeper = keeper
        self._fresh = fresh
        self._kept: PooledBrowser | None = kept
        self._proxy = proxy
        self._stays = False
        self.tab = tab

    @property
    def identity(self) -> str:
        """As whom pages are asked for: the proxy, without its password."""
        return "" if self._proxy is None else mask_url(self._proxy)

    async def turn(self, host: str, patience: float) -> TakenProxy | None:
        """A turn for opening a page of this host, in a tab that goes through its proxy; None where none is taken."""
        turn = await self._exits.turn(host, self._proxy if self._stays else None, patience)
        if turn is not None and turn.proxy.url != self._proxy:
            try:
                await self._move(turn.proxy.url)
            except BaseException:
                turn.give_back()
                raise
        self._stays = turn is not None
        return turn

    def failed(self) -> None:
        """What was opened last was turned away, or did not come."""
        self._stays = False
        if self._proxy is not None:
            self._exits.failed(self._proxy)

    def give_back(self, condition: Condition) -> None:
        """The tab is not needed any more."""
        kept, self._kept = self._kept, None
        if kept is not None:
            self._keeper.give_back(kept, self.tab, condition)

    async def _move(self, proxy: str) -> None:
        # What was in it is another's to see, and its browser mostly at its end.
        self.give_back(Condition.DOUBTFUL)
        self._kept, self.tab = await self._keeper.take(fresh=self._fresh, proxy=proxy)
        self._proxy = proxy
