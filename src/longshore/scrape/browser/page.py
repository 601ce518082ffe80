"""What a handler is given: a page it can open, read and take a picture of. Nothing it does waits for ever."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar, overload

from longshore.errors import ConnectionFailedError, CrashedError, TimedOutError, ValidationError, WorkerError
from longshore.pacing.contract import Limiter, Unlimited
from longshore.scrape.browser.browser_pool import Condition
from longshore.scrape.browser.driver import DriverPage, Opened, Tab
from longshore.scrape.browser.faults import ProxyFailedError
from longshore.scrape.browser.proxy_choice import BrowserProxy
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.response import StatusError, retry_after
from longshore.scrape.proxies.blame import Blame, blame_for_status
from longshore.scrape.proxies.proxy_source import TakenProxy
from longshore.url import host_of, mask_url

T = TypeVar("T")

_GRACE_SECONDS = 5.0
"""How much longer than its own timeout a driver may take to say that it timed out."""
_OF_THIS_MACHINE = ("file:", "filesystem:", "view-source:")
"""URLs come from jobs, and a job has no business with the files of whoever lends the machine."""


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """What is asked before a page is opened, and told afterwards."""

    pace: Limiter = field(default_factory=Unlimited)
    patience: float = 30.0
    """Seconds a page may wait for its host."""
    permit: Callable[[str], Awaitable[None]] | None = None
    """Raises for a URL that must not be opened."""
    watch: Callable[[Exchange], None] | None = None
    """Told of every URL that was opened, or could not be. The body of the answer is not among it."""
    ends_at: float | None = None
    """When the attempt will be ended (`time.monotonic`)."""

    def waits(self) -> float:
        """Seconds there are for waiting now."""
        if self.ends_at is None:
            return self.patience
        # Half of the time that is left is for the page.
        return max(0.0, min(self.patience, (self.ends_at - time.monotonic()) / 2))


class BrowserPage:
    """A tab of a browser, as long as the `async with` lasts."""

    def __init__(self, seat: BrowserProxy, seconds: float, manners: PageOptions) -> None:
        self._seat = seat
        self._seconds = seconds
        self._manners = manners
        self.condition = Condition.GOOD

    @property
    def _tab(self) -> Tab:
        return self._seat.tab

    async def open(self, url: str, *, check: bool = True) -> Opened:
        """Go to a URL, and return when the page has loaded: where it ended, and the status of the answer.

        Raises `StatusError` for an answer of 400 and above, unless `check` is off; `ConnectionFailedError` for a site
        that cannot be reached; `TimedOutError`; `ValidationError` for what is no URL, or one of a file of this machine;
        `ProcessingError` for a file that browsers save instead of showing; `CrashedError` for a browser that died of
        it; `HostClosedError`, by which the job comes back later at no cost, where the host must be left alone for
        longer than we may wait.
        """
        manners = self._manners
        # Browsers pass over blanks in front, and over line ends and tabs anywhere.
        if url.translate(dict.fromkeys(range(33))).lower().startswith(_OF_THIS_MACHINE):
            raise ValidationError(f"'{mask_url(url)}' is a file of this machine, which no job may open.")
        if manners.permit is not None:
            await manners.permit(url)
        turn = await self._seat.turn(host_of(url), manners.waits())
        if turn is None:
            opened = await self._ask(url, self._seat.identity, None)
        else:
            try:
                opened = await self._ask(url, str(turn.proxy), turn)
            finally:
                # Where nothing was found out about the proxy; else it has been said before.
                turn.give_back()
        if manners.permit is not None and opened.url != url:
            # Where it was led to was not known before; what must not be asked for is not handed out either.
            await manners.permit(opened.url)
        if check and opened.status >= 400:
            raise StatusError(url, opened.status, final_url=opened.url)
        return opened

    async def _ask(self, url: str, identity: str, turn: TakenProxy | None) -> Opened:
        manners, host = self._manners, host_of(url)
        await manners.pace.slot(host, identity, patience=manners.waits())
        at, started = time.time(), time.monotonic()
        try:
            opened = await self._bounded(self._tab.open(url, self._seconds), "the page did not load")
        except WorkerError as error:
            # Some are told before what made them is over: a crash, an endless script.
            self._doubt()
            seconds = time.monotonic() - started
            manners.pace.answered(host, identity, None, None, seconds)
            self._tell(Exchange(url=url, error=str(error), at=at, seconds=seconds, identity=identity))
            if turn is not None and (blame := _blame(error)) is not None:
                turn.judged(blame, str(error))
                self._seat.failed()
            raise
        seconds, status = time.monotonic() - started, opened.status
        turned_away = turn is not None and blame_for_status(status) is not None
        if turn is not None:
            turn.answered(status)
        if turned_away:
            self._seat.failed()
        # Another proxy may be let in: a pace that waits for this one would only hold up others.
        told = None if turned_away else status
        manners.pace.answered(host, identity, told, None if turned_away else retry_after(opened.headers), seconds)
        self._tell(
            Exchange(
                url=url,
                final_url=opened.url,
                status=status,
                headers=opened.headers,
                at=at,
                seconds=seconds,
                identity=identity,
            )
        )
        return opened

    def _tell(self, exchange: Exchange) -> None:
        if self._manners.watch is not None:
            self._manners.watch(exchange)

    async def url(self) -> str:
        """Where the page is now."""
        return await self._told(self._tab.url(), "the page did not say where it is")

    async def html(self) -> str:
        """The document as it is now, after its scripts."""
        return await self._told(self._tab.html(), "the page did not give its document")

    async def screenshot(self) -> bytes:
        """What is in view, as PNG."""
        return await self._told(self._tab.screenshot(), "the page could not be pictured")

    async def wait_for(self, selector: str) -> None:
        """Return when something on the page matches a CSS selector. Raises `TimedOutError` where nothing does."""
        await self._bounded(self._tab.wait_for(selector, self._seconds), f"nothing matched '{selector}'")

    @overload
    async def do(self, function: Callable[[DriverPage], Awaitable[T]]) -> T: ...

    @overload
    async def do(self, function: Callable[[DriverPage], T]) -> T: ...

    async def do(self, function: Callable[[DriverPage], object]) -> object:
        """Call a function with what the driver has for a page, and return its value.

        Playwright gives its `Page`; the function may return an awaitable, or be async. Selenium gives its `WebDriver`, in
        another thread. The function's own errors pass through.
        """
        return await self._bounded(self._tab.do(function), "it was not done")

    async def _told(self, doing: Coroutine[Any, Any, T], otherwise: str) -> T:
        """What every page can say of itself. One that cannot must not be the next one's trouble too."""
        try:
            return await self._bounded(doing, otherwise)
        except Exception:
            self._doubt()
            raise

    def _doubt(self) -> None:
        if self.condition is Condition.GOOD:
            self.condition = Condition.DOUBTFUL

    async def _bounded(self, doing: Coroutine[Any, Any, T], otherwise: str) -> T:
        limit = self._seconds + _GRACE_SECONDS
        try:
            async with asyncio.timeout(limit) as bound:
                return await doing
        except TimeoutError as error:
            if not bound.expired():
                raise
            self.condition = Condition.BROKEN
            raise TimedOutError(f"{otherwise} within {limit:g} s: the browser hangs") from error
        except CrashedError:
            self.condition = Condition.BROKEN
            raise
        except (TimedOutError, asyncio.CancelledError):
            # What was begun may still be going on in there.
            self._doubt()
            raise


def _blame(error: WorkerError) -> Blame | None:
    """Who made a page fail; None where that says nothing about the proxy."""
    if isinstance(error, ProxyFailedError):
        return Blame.PROXY
    return Blame.SITE if isinstance(error, ConnectionFailedError | TimedOutError) else None
