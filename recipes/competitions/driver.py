"""What `process_work_order` reads pages with: Chrome through Selenium, or plain requests.

Both ask the site at the rate that it takes, which all workers of the queue learn together.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from longshore import AsyncKit, LongshoreError

if TYPE_CHECKING:
    from selenium.webdriver.remote.webdriver import WebDriver

    from longshore.scrape.browser.page import BrowserPage

T = TypeVar("T")


class Driver(Protocol):
    """The part of Selenium's driver that the recipe needs. Its calls wait, so they are made in a thread."""

    @property
    def page_source(self) -> str:
        """The page that was opened last."""

    def get(self, url: str) -> None:
        """Open a page. Raise `StatusError` for a status of 400 and above, and other errors of Longshore."""

    def wait(self, seconds: float) -> None:
        """Wait, unless the attempt has ended."""


class _Calls:
    """Makes async calls from a thread, until the attempt ends."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.ended = False

    def call(self, coroutine: Coroutine[Any, Any, T]) -> T:
        if self.ended:
            coroutine.close()
            raise LongshoreError("the attempt has ended")
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self.ended and (left := until - time.monotonic()) > 0:
            time.sleep(min(left, 0.2))


class ChromeDriver(_Calls):
    """Chrome. `do` gives you Selenium's own driver, for clicks, scripts and everything else."""

    def __init__(self, page: BrowserPage) -> None:
        super().__init__()
        self._page = page

    @property
    def page_source(self) -> str:
        return self.call(self._page.html())

    @property
    def current_url(self) -> str:
        """The URL of the page, after redirects."""
        return self.call(self._page.url())

    def get(self, url: str) -> None:
        self.call(self._page.open(url))

    def do(self, function: Callable[[WebDriver], T]) -> T:
        """Call a function with Selenium's driver: `driver.do(lambda chrome: chrome.find_element("id", "more"))`."""
        return self.call(self._page.do(function))


class PlainDriver(_Calls):
    """Requests without a browser, for sites that need no scripts."""

    def __init__(self, kit: AsyncKit) -> None:
        super().__init__()
        self._kit = kit
        self._source = ""

    @property
    def page_source(self) -> str:
        return self._source

    def get(self, url: str) -> None:
        self._source = self.call(self._kit.http.get(url)).text


@asynccontextmanager
async def driver_of(kit: AsyncKit, *, chrome: bool) -> AsyncIterator[Driver]:
    """Yield a driver for one attempt."""
    if not chrome:
        plain = PlainDriver(kit)
        try:
            yield plain
        finally:
            plain.ended = True
        return
    async with kit.browser.page() as page:
        driver = ChromeDriver(page)
        try:
            yield driver
        finally:
            driver.ended = True
