"""The browsers of one process, which give pages to handlers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import TypedDict, Unpack

import structlog

from longshore.errors import SettingsError
from longshore.pacing.contract import Limiter, Unlimited
from longshore.scrape.block_pages import BlockDetector, BlockPage
from longshore.scrape.browser.browser_pool import BrowserPool, Condition
from longshore.scrape.browser.command_line import checked_blocked
from longshore.scrape.browser.driver import BrowserLaunch, Launcher, PausedAnswer
from longshore.scrape.browser.find_browser import Kind
from longshore.scrape.browser.page import BrowserPage, PageOptions, PageRecording
from longshore.scrape.browser.proxy_choice import CurrentProxy, ProxyChoice
from longshore.scrape.browser.screenshot import Screenshot, attach
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.address_policy import AddressPolicy, OwnHosts
from longshore.scrape.proxies.proxy_file import checked_proxy
from longshore.scrape.proxies.proxy_source import ProxySource

DEFAULT_TARGETS = 100
DEFAULT_GROWTH = 512 * 1024 * 1024
DEFAULT_TIMEOUT = timedelta(seconds=30)
DEFAULT_PATIENCE = timedelta(seconds=30)

log = structlog.get_logger()


@dataclass(frozen=True, kw_only=True)
class BrowserOptions:
    """The options of all browsers of a process."""

    targets: int = DEFAULT_TARGETS
    """A browser is replaced after this many pages."""
    growth: int = DEFAULT_GROWTH
    """A browser is replaced when its memory has grown by this many bytes."""
    blocked: Iterable[str] = ()
    """Resource types that are not loaded, from `BLOCKABLE`."""
    proxy: str | None = None
    """The URL of a proxy for all requests."""
    path: str | None = None
    """The browser's program; None searches for one."""
    user_agent: str | None = None
    private_hosts: tuple[str, ...] = ()
    """Names, addresses and networks that pages may reach although they are not public; see `AddressPolicy`."""
    blocks: BlockDetector = field(default_factory=BlockDetector)
    """Recognises pages that are refusals whatever their status says."""
    timeout: timedelta = DEFAULT_TIMEOUT
    """The limit for each call of a page."""
    patience: timedelta = DEFAULT_PATIENCE
    """How long a page may wait for its host or for a proxy."""
    record: PageRecording = PageRecording.NOTHING
    """Which responses of pages are reported to the `watch` of an attempt, with the documents that it read."""
    answer: PausedAnswer | None = None
    """Answers every request instead of the network."""

    def __post_init__(self) -> None:
        if self.targets < 1:
            raise SettingsError(f"A browser cannot be replaced after {self.targets} pages. Give it 1 or more.")
        if self.proxy is not None:
            _check_proxy(self.proxy)


class BrowserKeywords(TypedDict, total=False):
    """The fields of `BrowserOptions`, as keywords of `Browsers`."""

    targets: int
    growth: int
    blocked: Iterable[str]
    proxy: str | None
    path: str | None
    user_agent: str | None
    private_hosts: tuple[str, ...]
    blocks: BlockDetector
    timeout: timedelta
    patience: timedelta
    record: PageRecording
    answer: PausedAnswer | None


@dataclass(frozen=True)
class _Shared:
    """The state that all attempts of a process share."""

    pool: BrowserPool
    proxies: ProxyChoice
    seconds: float
    wants_picture: Callable[[BaseException], bool] | None


class AttemptBrowsers:
    """Browser pages for one attempt at a job. `Browsers.attempt` makes one, at almost no cost."""

    def __init__(self, shared: _Shared, options: PageOptions) -> None:
        self._shared = shared
        self._options = options

    @asynccontextmanager
    async def page(self) -> AsyncIterator[BrowserPage]:
        """Give a page in a browser that may have opened other pages before.

        Raise `BrowserMissingError` if this machine has no browser, `CrashedError` if the browser does not start.
        """
        async with self._page(fresh=False) as page:
            yield page

    @asynccontextmanager
    async def fresh_page(self) -> AsyncIterator[BrowserPage]:
        """Give a page without cookies and cache of earlier pages. It takes several times as long as `page`."""
        async with self._page(fresh=True) as page:
            yield page

    @asynccontextmanager
    async def _page(self, *, fresh: bool) -> AsyncIterator[BrowserPage]:
        wants_picture = self._shared.wants_picture
        browser_proxy = await self._shared.proxies.take(fresh=fresh, patience=self._options.waits())
        page = BrowserPage(browser_proxy, self._shared.seconds, self._options)
        try:
            yield page
        except Exception as error:
            if page.condition is Condition.GOOD and wants_picture is not None and wants_picture(error):
                await _take_picture(page, error)
                await page.report_loaded()
            raise
        else:
            if self._options.record is PageRecording.ALL and page.condition is Condition.GOOD:
                await page.report_loaded()
        finally:
            try:
                page.report_document()
            finally:
                browser_proxy.give_back(page.condition)


class Browsers(AttemptBrowsers):
    """The browsers of a process, and the pages in them.

        async with browsers.page() as page:
            await page.open(url)
            html = await page.html()

    No driver is imported and no browser started before the first page. Every page in use has its own tab. Tabs are
    reused, with the cookies and cache of earlier pages: that is four times as fast as a new tab for each page.
    """

    def __init__(
        self,
        kind: Kind = "playwright",
        options: BrowserOptions | None = None,
        *,
        proxies: ProxySource | None = None,
        current_proxy: CurrentProxy | None = None,
        pace: Limiter | None = None,
        wants_picture: Callable[[BaseException], bool] | None = None,
        **changes: Unpack[BrowserKeywords],
    ) -> None:
        """Make the browsers of one process; `changes` replace fields of `options`.

        Instead of the one `proxy` of the options, browsers use a proxy from `proxies` until it fails, or the one that
        `current_proxy` returns before each page. Every page waits for the `pace` of its host. If a handler fails while
        a page is open and `wants_picture` returns True for the error, `picture_of` returns a picture of the page.
        """
        if kind not in ("playwright", "selenium"):
            raise SettingsError(f"No browser is driven by '{kind}'. Choose playwright or selenium.")
        options = replace(options or BrowserOptions(), **changes)
        launch = BrowserLaunch(
            blocked=checked_blocked(options.blocked),
            path=options.path,
            user_agent=options.user_agent,
            policy=AddressPolicy(options.private_hosts),
            record=options.record is not PageRecording.NOTHING,
            answer=options.answer,
        )
        pool = BrowserPool(_launcher(kind, launch), targets=options.targets, growth=options.growth)
        choice = ProxyChoice(pool, options.proxy, proxies, current_proxy)
        super().__init__(
            _Shared(pool, choice, options.timeout.total_seconds(), wants_picture),
            PageOptions(
                pace=pace or Unlimited(),
                patience=options.patience.total_seconds(),
                blocks=options.blocks,
                record=options.record,
            ),
        )

    @property
    def pids(self) -> list[int]:
        """The root process id of each running browser."""
        return self._shared.pool.pids

    @property
    def recycled(self) -> Mapping[str, int]:
        """How many browsers were replaced, by reason: `pages`, `memory`, `broken`, `other`."""
        return {reason.value: number for reason, number in self._shared.pool.recycled.items()}

    @property
    def waited_seconds(self) -> float:
        """For how long pages have been waiting for a browser to start; 0 if none waits."""
        return self._shared.pool.waited_seconds

    def attempt(
        self,
        *,
        permit: Callable[[str], Awaitable[None]] | None = None,
        watch: Callable[[Exchange], None] | None = None,
        ends_at: float | None = None,
        own: OwnHosts | None = None,
        block_pages: Sequence[BlockPage] = (),
    ) -> AttemptBrowsers:
        """Return the pages for one attempt, in the same browsers.

        `permit` is awaited before a URL is opened and raises if it must not be (robots.txt). `watch` is called with
        every URL that was opened or failed to open. `ends_at` is when the attempt must end (`time.monotonic`).
        `own` are the hosts of the job, which it may reach on a private network. `block_pages` are added to those of the
        browsers.
        """
        blocks = None if self._options.blocks is None else self._options.blocks.with_rules(block_pages)
        options = replace(self._options, permit=permit, watch=watch, ends_at=ends_at, own=own, blocks=blocks)
        return AttemptBrowsers(self._shared, options)

    def retire(self, why: str) -> None:
        """Retire the running browsers: each ends when its last page in use is closed."""
        self._shared.pool.retire(why)

    async def close(self) -> None:
        """End all browsers. Closing twice is harmless; a later page starts a new browser."""
        await self._shared.pool.close()


def _check_proxy(proxy: str) -> None:
    try:
        checked_proxy(proxy)
    except ValueError as error:
        raise SettingsError(
            f"The URL given as the proxy is no proxy: it {error}. Write it as http://user:password@address:port."
        ) from error


def _launcher(kind: Kind, launch: BrowserLaunch) -> Launcher:
    # Each driver is a large import, so it is imported only for the kind in use.
    if kind == "selenium":
        from longshore.scrape.browser.selenium import SeleniumLauncher

        return SeleniumLauncher(launch)
    from longshore.scrape.browser.playwright import PlaywrightLauncher

    return PlaywrightLauncher(launch)


async def _take_picture(page: BrowserPage, error: Exception) -> None:
    try:
        attach(Screenshot(await page.url(), await page.html(), await page.screenshot()), error)
    except Exception as fault:  # noqa: BLE001  the handler's own error is the one to report
        log.debug("No picture could be taken of the page that failed", why=str(fault))
