"""The browsers for plain (not async) handlers: the same calls without await, run on an event loop in another thread."""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar, overload

from longshore.scrape.block_pages import BlockPage
from longshore.scrape.browser.browsers import AttemptBrowsers, Browsers
from longshore.scrape.browser.driver import DriverPage, Opened
from longshore.scrape.browser.page import BrowserPage
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.address_policy import OwnHosts
from longshore.system.loop_thread import LoopThread

T = TypeVar("T")


class SyncAttemptBrowsers:
    """Browser pages for one attempt of a plain handler."""

    def __init__(self, browsers: AttemptBrowsers, thread: Callable[[], LoopThread]) -> None:
        self._attempt_browsers = browsers
        self._get_thread = thread

    @contextmanager
    def page(self) -> Iterator[SyncPage]:
        """As `AttemptBrowsers.page`."""
        with _entered(self._attempt_browsers.page(), self._get_thread()) as page:
            yield page

    @contextmanager
    def fresh_page(self) -> Iterator[SyncPage]:
        """As `AttemptBrowsers.fresh_page`."""
        with _entered(self._attempt_browsers.fresh_page(), self._get_thread()) as page:
            yield page


class SyncBrowsers(SyncAttemptBrowsers):
    """The browsers of a process, for plain handlers: `with kit.browser.page() as page: page.open(url)`."""

    def __init__(self, browsers: Browsers | None = None) -> None:
        self._browsers = browsers or Browsers()
        self._thread: LoopThread | None = None
        self._starting = threading.Lock()
        super().__init__(self._browsers, self._running)

    def attempt(
        self,
        *,
        permit: Callable[[str], Awaitable[None]] | None = None,
        watch: Callable[[Exchange], None] | None = None,
        ends_at: float | None = None,
        own: OwnHosts | None = None,
        block_pages: Sequence[BlockPage] = (),
    ) -> SyncAttemptBrowsers:
        """As `Browsers.attempt`. `permit` and `watch` are called in the event loop's thread while the handler waits."""
        browsers = self._browsers.attempt(permit=permit, watch=watch, ends_at=ends_at, own=own, block_pages=block_pages)
        return SyncAttemptBrowsers(browsers, self._running)

    def close(self) -> None:
        """As `Browsers.close`."""
        if self._thread is not None:
            self._thread.call(self._browsers.close())
            self._thread.close()
            self._thread = None

    def _running(self) -> LoopThread:
        with self._starting:
            if self._thread is None:
                self._thread = LoopThread("longshore-browser")
            return self._thread


class SyncPage:
    """A page for plain handlers."""

    def __init__(self, page: BrowserPage, thread: LoopThread) -> None:
        self._page = page
        self._thread = thread

    def open(self, url: str, *, check: bool = True) -> Opened:
        """As `BrowserPage.open`."""
        return self._thread.call(self._page.open(url, check=check))

    def url(self) -> str:
        """As `BrowserPage.url`."""
        return self._thread.call(self._page.url())

    def html(self) -> str:
        """As `BrowserPage.html`."""
        return self._thread.call(self._page.html())

    def screenshot(self) -> bytes:
        """As `BrowserPage.screenshot`."""
        return self._thread.call(self._page.screenshot())

    def wait_for(self, selector: str) -> None:
        """As `BrowserPage.wait_for`."""
        self._thread.call(self._page.wait_for(selector))

    @overload
    def do(self, function: Callable[[DriverPage], Awaitable[T]]) -> T: ...

    @overload
    def do(self, function: Callable[[DriverPage], T]) -> T: ...

    def do(self, function: Callable[[DriverPage], object]) -> object:
        """As `BrowserPage.do`; the function is called in another thread and gets Playwright's async page."""
        return self._thread.call(self._page.do(function))


@contextmanager
def _entered(pages: AbstractAsyncContextManager[BrowserPage], thread: LoopThread) -> Iterator[SyncPage]:
    page = thread.call(_enter(pages))
    try:
        yield SyncPage(page, thread)
    except BaseException as error:
        thread.call(_leave(pages, error))
        raise
    thread.call(_leave(pages, None))


async def _enter(pages: AbstractAsyncContextManager[BrowserPage]) -> BrowserPage:
    return await pages.__aenter__()


async def _leave(pages: AbstractAsyncContextManager[BrowserPage], error: BaseException | None) -> None:
    """Leave the block with the handler's `error`. If that error is raised again, drop it: the caller raises it."""
    try:
        await pages.__aexit__(type(error) if error else None, error, error.__traceback__ if error else None)
    except BaseException as same:
        if same is not error:
            raise
