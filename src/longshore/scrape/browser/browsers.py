"""The browsers of one process: pages for handlers, async and plain."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from datetime import timedelta

import structlog

from longshore.errors import SettingsError
from longshore.pacing.contract import Limiter, Unlimited
from longshore.scrape.browser.browser_pool import BrowserPool, Condition
from longshore.scrape.browser.command_line import checked_blocked
from longshore.scrape.browser.driver import BrowserLaunch, Launcher
from longshore.scrape.browser.find_browser import Kind
from longshore.scrape.browser.page import BrowserPage, PageOptions
from longshore.scrape.browser.proxy_choice import ProxyChoice, Way
from longshore.scrape.browser.screenshot import Screenshot, attach
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.proxies.proxy_file import checked_proxy
from longshore.scrape.proxies.proxy_source import ProxySource

DEFAULT_TARGETS = 100
DEFAULT_GROWTH = 512 * 1024 * 1024
DEFAULT_TIMEOUT = timedelta(seconds=30)
DEFAULT_PATIENCE = timedelta(seconds=30)

log = structlog.get_logger()


@dataclass(frozen=True)
class _Shared:
    """What all attempts of a process have in common."""

    keeper: BrowserPool
    exits: ProxyChoice
    seconds: float
    wants_picture: Callable[[BaseException], bool] | None


class AttemptBrowsers:
    """Gives pages in one attempt at a job. Made by `Browsers.attempt`; costs next to nothing."""

    def __init__(self, shared: _Shared, manners: PageOptions) -> None:
        self._shared = shared
        self._manners = manners

    @asynccontextmanager
    async def page(self) -> AsyncIterator[BrowserPage]:
        """A page, in a browser that may have served others before.

        Raises `BrowserMissingError` where this machine has no browser, and `CrashedError` where it does not start.
        """
        async with self._page(fresh=False) as page:
            yield page

    @asynccontextmanager
    async def fresh_page(self) -> AsyncIterator[BrowserPage]:
        """A page that knows nothing of earlier ones: no cookies, no cache. It takes several times as long."""
        async with self._page(fresh=True) as page:
            yield page

    @asynccontextmanager
    async def _page(self, *, fresh: bool) -> AsyncIterator[BrowserPage]:
        wants_picture = self._shared.wants_picture
        seat = await self._shared.exits.take(fresh=fresh, patience=self._manners.waits())
        page = BrowserPage(seat, self._shared.seconds, self._manners)
        try:
            yield page
        except Exception as error:
            if page.condition is Condition.GOOD and wants_picture is not None and wants_picture(error):
                await _take_picture(page, error)
            raise
        finally:
            seat.give_back(page.condition)


class Browsers(AttemptBrowsers):
    """Gives pages, and keeps the browsers they are in.

        async with browsers.page() as page:
            await page.open(url)
            html = await page.html()

    Nothing is imported or started before the first page. Every page in use is a tab of its own. Tabs are used again,
    with the cookies and cache of earlier pages: that is four times as fast as beginning anew each time.
    """

    def __init__(
        self,
        kind: Kind = "playwright",
        *,
        targets: int = DEFAULT_TARGETS,
        growth: int = DEFAULT_GROWTH,
        blocked: Iterable[str] = (),
        proxy: str | None = None,
        proxies: ProxySource | None = None,
        way: Way | None = None,
        path: str | None = None,
        user_agent: str | None = None,
        timeout: timedelta = DEFAULT_TIMEOUT,
        pace: Limiter | None = None,
        patience: timedelta = DEFAULT_PATIENCE,
        wants_picture: Callable[[BaseException], bool] | None = None,
    ) -> None:
        """A browser is replaced after `targets` pages, or when its memory grew by `growth` bytes.

        `blocked` are types of resources that are not loaded (`BLOCKABLE`). All of a browser's requests go through
        `proxy`, a URL, or through one of `proxies`: the same one until it fails; or through the one that `way` names
        when it is asked, before each page. `path` is the browser's program, found where not given. `timeout` bounds
        everything a page is asked for. Every page waits for its turn with the `pace`, for `patience` at most.
        `wants_picture` is asked, when a handler fails with a page open, whether `picture_of` shall have a picture.
        """
        if kind not in ("playwright", "selenium"):
            raise SettingsError(f"No browser is driven by '{kind}'. Choose playwright or selenium.")
        if targets < 1:
            raise SettingsError(f"A browser cannot be replaced after {targets} pages. Give it 1 or more.")
        if proxy is not None:
            _check_proxy(proxy)
        plan = BrowserLaunch(blocked=checked_blocked(blocked), path=path, user_agent=user_agent)
        keeper = BrowserPool(_launcher(kind, plan), targets=targets, growth=growth)
        super().__init__(
            _Shared(keeper, ProxyChoice(keeper, proxy, proxies, way), timeout.total_seconds(), wants_picture),
            PageOptions(pace=pace or Unlimited(), patience=patience.total_seconds()),
        )

    @property
    def pids(self) -> list[int]:
        """The first process of each browser that runs."""
        return self._shared.keeper.pids

    def attempt(
        self,
        *,
        permit: Callable[[str], Awaitable[None]] | None = None,
        watch: Callable[[Exchange], None] | None = None,
        ends_at: float | None = None,
    ) -> AttemptBrowsers:
        """The same for one attempt, in the same browsers.

        `permit` is asked before a URL is opened, and raises where it must not be (robots.txt). `watch` is told of
        every URL that was opened, or could not be. `ends_at` is when the attempt will be ended (`time.monotonic`).
        """
        return AttemptBrowsers(self._shared, replace(self._manners, permit=permit, watch=watch, ends_at=ends_at))

    def retire(self, why: str) -> None:
        """Let pages in use be finished, and end each browser with its last one."""
        self._shared.keeper.retire(why)

    async def close(self) -> None:
        """End all browsers. Closing twice is harmless; a later page starts a new one."""
        await self._shared.keeper.close()


def _check_proxy(proxy: str) -> None:
    try:
        checked_proxy(proxy)
    except ValueError as error:
        raise SettingsError(
            f"What is given is no proxy: it {error}. Write it as http://user:password@address:port."
        ) from error


def _launcher(kind: Kind, plan: BrowserLaunch) -> Launcher:
    # Neither driver is imported before its first browser is started: they are large.
    if kind == "selenium":
        from longshore.scrape.browser.selenium import SeleniumLauncher

        return SeleniumLauncher(plan)
    from longshore.scrape.browser.playwright import PlaywrightLauncher

    return PlaywrightLauncher(plan)


async def _take_picture(page: BrowserPage, error: Exception) -> None:
    try:
        attach(Screenshot(await page.url(), await page.html(), await page.screenshot()), error)
    except Exception as fault:  # noqa: BLE001  the handler's own error is what counts
        log.debug("No picture could be taken of the page that failed", why=str(fault))
