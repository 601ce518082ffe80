"""The page that a handler opens, reads and photographs. Every call has a time limit."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeVar, overload

import msgspec
import structlog

from longshore.errors import ConnectionFailedError, CrashedError, TimedOutError, ValidationError, WorkerError
from longshore.extensions.traces import ExchangeKind
from longshore.pacing.contract import BLOCK_PAGE, Limiter, Unlimited
from longshore.scrape.block_pages import BlockDetector
from longshore.scrape.browser.browser_pool import Condition
from longshore.scrape.browser.driver import DriverPage, Opened, Tab
from longshore.scrape.browser.faults import ProxyFailedError
from longshore.scrape.browser.proxy_choice import BrowserProxy
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.address_policy import OwnHosts
from longshore.scrape.http.response import BlockPageError, Response, StatusError, retry_after
from longshore.scrape.proxies.blame import Blame, blame_for_status
from longshore.scrape.proxies.proxy_source import TakenProxy
from longshore.url import host_of, mask_url

T = TypeVar("T")

log = structlog.get_logger()

_GRACE_SECONDS = 5.0
"""Extra seconds a driver gets to report its own timeout."""
_CHALLENGE_SECONDS = 5.0
"""How long a block page is given to turn into the page."""
_CHALLENGE_POLL = 0.5
DOCUMENT_HEADERS = {"Content-Type": "text/html; charset=utf-8"}
"""The headers of a document as the browser holds it: text, whatever its encoding was on the way."""
_WEB = ("http://", "https://")
"""URLs come from jobs and pages, which must not read files of this machine or change its browser."""


class PageRecording(Enum):
    """Which pages are recorded with the responses that they loaded."""

    NOTHING = "none"
    FAILED = "the page that is open when a handler fails"
    ALL = "all"


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The rules and callbacks for opening pages."""

    pace: Limiter = field(default_factory=Unlimited)
    patience: float = 30.0
    """Seconds a page may wait for its host."""
    permit: Callable[[str], Awaitable[None]] | None = None
    """Raises for a URL that must not be opened."""
    watch: Callable[[Exchange], None] | None = None
    """Called with the exchange of every URL that was opened or failed to open, and with what is recorded."""
    record: PageRecording = PageRecording.NOTHING
    ends_at: float | None = None
    """When the attempt must end (`time.monotonic`)."""
    own: OwnHosts | None = None
    """The hosts of the job; None takes the host of each URL that is opened."""
    blocks: BlockDetector | None = None
    """Recognises block pages; None takes every page as it is."""

    def waits(self) -> float:
        """Return how many seconds a page may wait now."""
        if self.ends_at is None:
            return self.patience
        # Keep half of the remaining time for the page itself.
        return max(0.0, min(self.patience, (self.ends_at - time.monotonic()) / 2))


class BrowserPage:
    """A browser tab, valid inside its `async with` block."""

    def __init__(self, browser_proxy: BrowserProxy, seconds: float, options: PageOptions) -> None:
        self._browser_proxy = browser_proxy
        self._seconds = seconds
        self._options = options
        self.condition = Condition.GOOD
        self._opened: Exchange | None = None
        """The page that is open."""
        self._document = ""
        """The open page as it was read last."""

    @property
    def _tab(self) -> Tab:
        return self._browser_proxy.tab

    async def open(self, url: str, *, check: bool = True) -> Opened:
        """Open a URL and return its final URL and status when the page has loaded.

        Raise `StatusError` for a status of 400 and above and `BlockPageError` for a block page, unless `check` is
        False; `ConnectionFailedError` if the site cannot be reached; `TimedOutError`; `ValidationError` for an invalid
        URL or a local file; `ProcessingError` for a file that browsers download instead of showing; `CrashedError` if
        the browser died; `HostClosedError` if the host must not be asked for longer than we may wait: the job then
        returns later and no attempt is counted.
        """
        options = self._options
        # Browsers ignore leading blanks, and line ends and tabs anywhere.
        if not url.translate(dict.fromkeys(range(33))).lower().startswith(_WEB):
            raise ValidationError(
                f"'{mask_url(url)}' is not a URL that can be opened. A browser opens http:// and https://, and no file "
                "of this machine."
            )
        own = options.own or OwnHosts()
        own.begin(host_of(url))
        if options.permit is not None:
            await options.permit(url)
        await self._report_page_before()
        taken = await self._browser_proxy.acquire(host_of(url), options.waits())
        self._tab.allow(own)
        if taken is None:
            opened, blocked = await self._open(url, self._browser_proxy.identity, None)
        else:
            try:
                opened, blocked = await self._open(url, str(taken.proxy), taken)
            finally:
                # Only has an effect if `_open` reported no verdict about the proxy.
                taken.give_back()
        if options.permit is not None and opened.url != url:
            # The redirect target was not known before: do not hand out a page that may not be fetched.
            await options.permit(opened.url)
        if check and opened.status >= 400:
            raise StatusError(url, opened.status, final_url=opened.url)
        if check and blocked:
            raise BlockPageError(url, blocked, status=opened.status)
        return opened

    async def _open(self, url: str, identity: str, taken: TakenProxy | None) -> tuple[Opened, str]:
        """Open the URL. Return what was opened, and why it is a block page; an empty text if it is a page."""
        options, host = self._options, host_of(url)
        await options.pace.slot(host, identity, patience=options.waits())
        at, started = time.time(), time.monotonic()
        try:
            opened = await self._bounded(self._tab.open(url, self._seconds), "the page did not load")
            block_page = await self._why_blocked(url, opened)
        except WorkerError as error:
            # The cause of the error may still go on in the tab, for example an endless script.
            self._mark_doubtful()
            seconds = time.monotonic() - started
            options.pace.answered(host, identity, None, None, seconds)
            self._report(
                Exchange(kind=ExchangeKind.OPENED, url=url, error=str(error), at=at, seconds=seconds, identity=identity)
            )
            if taken is not None and (blame := _blame(error)) is not None:
                taken.judged(blame, str(error))
                self._browser_proxy.failed()
            raise
        seconds, status = time.monotonic() - started, opened.status
        blocked = taken is not None and (bool(block_page) or blame_for_status(status) is not None)
        if taken is not None and block_page:
            taken.blocked(f"answered with {block_page}")
        elif taken is not None:
            taken.answered(status)
        if blocked:
            self._browser_proxy.failed()
        # The site may serve another proxy, so do not slow down the host's pace because it blocked this one.
        paced_status = None if blocked else BLOCK_PAGE if block_page else status
        options.pace.answered(host, identity, paced_status, None if blocked else retry_after(opened.headers), seconds)
        self._opened = Exchange(
            kind=ExchangeKind.OPENED,
            url=url,
            final_url=opened.url,
            status=status,
            headers=opened.headers,
            at=at,
            seconds=seconds,
            identity=identity,
        )
        self._report(self._opened)
        return opened, block_page

    async def _why_blocked(self, url: str, opened: Opened) -> str:
        blocks = self._options.blocks
        if blocks is None or opened.status >= 400:
            return ""
        ends_at = time.monotonic() + _CHALLENGE_SECONDS
        while True:
            html = await self._bounded(self._tab.html(), "the page did not return its document")
            page = Response(url=opened.url, status=opened.status, headers=DOCUMENT_HEADERS, body=html.encode())
            why = blocks.why(page, url)
            if not why or time.monotonic() > ends_at:
                return why
            # Some challenges let a browser through by themselves after a moment.
            await asyncio.sleep(_CHALLENGE_POLL)

    async def _report_page_before(self) -> None:
        """Report the page that another one is about to replace."""
        if self._options.record is not PageRecording.NOTHING and self.condition is Condition.GOOD:
            await self.report_loaded()
        self.report_document()

    async def report_loaded(self) -> None:
        """Report the responses that the open page has loaded. A browser that does not return them is not reported."""
        if self._opened is None or self._options.watch is None:
            return
        try:
            loaded = await self._bounded(self._tab.loaded(), "the page did not return its responses")
        except Exception as fault:  # noqa: BLE001  a page that cannot be recorded must not change the outcome
            log.debug("The responses of a page could not be recorded", why=str(fault))
            self._mark_doubtful()
            return
        for exchange in loaded:
            self._report(msgspec.structs.replace(exchange, identity=self._opened.identity))

    def report_document(self) -> None:
        """Report the document of the open page as it was read last, if it was read."""
        opened, self._opened = self._opened, None
        html, self._document = self._document, ""
        if opened is not None and html and self._options.record is not PageRecording.NOTHING:
            body = html.encode(errors="replace")
            self._report(
                msgspec.structs.replace(opened, kind=ExchangeKind.DOCUMENT, headers=DOCUMENT_HEADERS, body=body)
            )

    def _report(self, exchange: Exchange) -> None:
        if self._options.watch is not None:
            self._options.watch(exchange)

    async def url(self) -> str:
        """Return the current URL of the page."""
        return await self._read(self._tab.url(), "the page did not report its URL")

    async def html(self) -> str:
        """Return the current document, as the page's scripts have changed it."""
        html = await self._read(self._tab.html(), "the page did not return its document")
        self._document = html
        return html

    async def screenshot(self) -> bytes:
        """Return a PNG of the visible part of the page."""
        return await self._read(self._tab.screenshot(), "no screenshot of the page was made")

    async def wait_for(self, selector: str) -> None:
        """Return when an element matches the CSS selector. Raise `TimedOutError` if none does in time."""
        await self._bounded(self._tab.wait_for(selector, self._seconds), f"nothing matched '{selector}'")

    @overload
    async def do(self, function: Callable[[DriverPage], Awaitable[T]]) -> T: ...

    @overload
    async def do(self, function: Callable[[DriverPage], T]) -> T: ...

    async def do(self, function: Callable[[DriverPage], object]) -> object:
        """Call `function` with the driver's own page and return its value.

        With Playwright that is its async `Page`; the function may be async. With Selenium it is the `WebDriver`, and
        the function runs in another thread. Errors of the function are raised unchanged.
        """
        return await self._bounded(self._tab.do(function), "the function did not return")

    async def _read(self, call: Coroutine[Any, Any, T], failure: str) -> T:
        """Await a call that works on every healthy page. If it fails, the tab is closed instead of reused."""
        try:
            return await self._bounded(call, failure)
        except Exception:
            self._mark_doubtful()
            raise

    def _mark_doubtful(self) -> None:
        if self.condition is Condition.GOOD:
            self.condition = Condition.DOUBTFUL

    async def _bounded(self, call: Coroutine[Any, Any, T], failure: str) -> T:
        limit = self._seconds + _GRACE_SECONDS
        try:
            async with asyncio.timeout(limit) as bound:
                return await call
        except TimeoutError as error:
            if not bound.expired():
                raise
            self.condition = Condition.BROKEN
            raise TimedOutError(f"{failure} within {limit:g} s: the browser hangs") from error
        except CrashedError:
            self.condition = Condition.BROKEN
            raise
        except (TimedOutError, asyncio.CancelledError):
            # The call may still be running in the tab.
            self._mark_doubtful()
            raise


def _blame(error: WorkerError) -> Blame | None:
    """Return who is to blame for a failed page; None if the error says nothing about the proxy."""
    if isinstance(error, ProxyFailedError):
        return Blame.PROXY
    return Blame.SITE if isinstance(error, ConnectionFailedError | TimedOutError) else None
