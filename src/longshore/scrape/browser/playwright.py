"""Browsers driven by Playwright: tabs load in parallel, and all browsers share one driver process."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import secrets
from collections.abc import Awaitable, Callable
from sys import maxsize
from typing import TYPE_CHECKING, Any, TypeVar

import psutil
from multidict import CIMultiDict

from longshore.errors import CrashedError, TimedOutError
from longshore.scrape.browser.blocking import EVERYTHING, refuse
from longshore.scrape.browser.command_line import NEVER_SENT, RESOURCE_TYPES, arguments, needs_no_sandbox
from longshore.scrape.browser.downloads import browser_for_playwright
from longshore.scrape.browser.driver import BrowserLaunch, Opened, PausedAnswer
from longshore.scrape.browser.faults import browser_died, first_line, means_died, navigation_fault
from longshore.scrape.browser.find_browser import require_driver
from longshore.scrape.browser.local_proxy import LocalProxy, local_proxy_for, trouble_of
from longshore.scrape.browser.processes import is_alive, kill_tree, process_tree, reap_crash_handlers
from longshore.scrape.browser.profile_folders import new_folder, note_profile, remove_folder
from longshore.scrape.browser.recording import PlaywrightRecorder
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.address_policy import OwnHosts
from longshore.url import mask_url

if TYPE_CHECKING:
    from playwright import async_api as api

T = TypeVar("T")

_NAVIGATION_RETRIES = 5
"""Retries of a navigation that another navigation interrupted."""

START_SECONDS = 60.0
CLOSE_SECONDS = 5.0

_MARK = "LONGSHORE_BROWSER"
"""The environment variable that marks a browser's root process; Playwright does not report its process id."""

_USER_DATA = "--user-data-dir="
_MADE_BY_PLAYWRIGHT = "playwright_chromiumdev_profile-"


class PlaywrightLauncher:
    """The launcher of Chromium. It starts Playwright's driver process with the first browser; all browsers share it."""

    def __init__(self, launch: BrowserLaunch) -> None:
        self._launch_options = launch
        self._program: str | None = None
        self._playwright: api.Playwright | None = None
        self._node: psutil.Process | None = None
        """Playwright's driver process."""

    async def start(self, proxy: str | None) -> PlaywrightBrowser:
        """As `Launcher.start`."""
        require_driver("playwright")
        from playwright import async_api as api

        if self._program is None:
            self._program = await browser_for_playwright(self._launch_options.path)
        if self._node is not None and not is_alive(self._node):
            await self.close()
        local_proxy = await local_proxy_for(proxy, self._launch_options.policy)
        folder = await asyncio.to_thread(new_folder)
        mark = secrets.token_hex(8)
        try:
            async with asyncio.timeout(START_SECONDS):
                if self._playwright is None:
                    self._playwright = await api.async_playwright().start()
                browser = await self._launch(
                    self._playwright, local_proxy.server if local_proxy else proxy, folder, mark
                )
                root = await asyncio.to_thread(_first_marked, mark)
                if profile := _profile_of(root):
                    note_profile(folder, profile)
                self._node = self._node or _driver_of(root)
                return PlaywrightBrowser(browser, root, folder, local_proxy, self._launch_options)
        except BaseException as error:
            await asyncio.to_thread(kill_tree, _all_marked(mark))
            await _clear(folder, local_proxy)
            if isinstance(error, api.Error):
                raise CrashedError(f"the browser {self._program} did not start: {_why(error)}") from error
            if isinstance(error, TimeoutError):
                raise CrashedError(f"the browser {self._program} did not start in {START_SECONDS:.0f} s") from error
            raise

    async def _launch(self, playwright: api.Playwright, server: str | None, folder: str, mark: str) -> api.Browser:
        launch = self._launch_options
        return await playwright.chromium.launch(
            executable_path=self._program,
            args=arguments(blocked=launch.blocked, proxy_server=server, user_agent=launch.user_agent),
            chromium_sandbox=not needs_no_sandbox(),
            env={**os.environ, _MARK: mark, "TMPDIR": folder},
            # Our own process handles the signals and decides when its browsers end.
            handle_sigint=False,
            handle_sigterm=False,
            handle_sighup=False,
        )

    async def close(self) -> None:
        """As `Launcher.close`."""
        playwright, self._playwright = self._playwright, None
        node, self._node = self._node, None
        if playwright is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await playwright.stop()
        if node is not None:
            await asyncio.to_thread(kill_tree, process_tree(node), waited_for=node.pid)


class PlaywrightBrowser:
    """One Chromium browser."""

    max_tabs = maxsize

    def __init__(
        self,
        browser: api.Browser,
        root: psutil.Process,
        folder: str,
        local_proxy: LocalProxy | None,
        launch: BrowserLaunch,
    ) -> None:
        self.pid = root.pid
        self._root = root
        self._browser = browser
        self._folder = folder
        self._local_proxy = local_proxy
        self._patterns = [{"resourceType": RESOURCE_TYPES[name]} for name in sorted(launch.blocked - NEVER_SENT)]
        self._record = launch.record
        self._answer = launch.answer
        self._shared: api.BrowserContext | None = None

    @property
    def alive(self) -> bool:
        """As `Browser.alive`."""
        return self._browser.is_connected() and is_alive(self._root)

    async def new_tab(self) -> PlaywrightTab:
        """As `Browser.new_tab`."""
        return await self._new_tab(fresh=False)

    async def new_fresh_tab(self) -> PlaywrightTab:
        """As `Browser.new_fresh_tab`."""
        return await self._new_tab(fresh=True)

    async def _new_tab(self, *, fresh: bool) -> PlaywrightTab:
        from playwright import async_api as api

        try:
            if fresh:
                context = await self._context()
            else:
                context = self._shared = self._shared or await self._context()
            page = await context.new_page()
            if self._answer is not None:
                await _intercept(context, page, EVERYTHING, self._answer)
            elif self._patterns:
                await _intercept(context, page, self._patterns, refuse)
            recorder = PlaywrightRecorder(page) if self._record else None
            tab = PlaywrightTab(page, context if fresh else None, self._local_proxy, recorder)
            await tab.watch_dialogs(context)
        except api.Error as error:
            raise browser_died(error.message) from error
        return tab

    async def _context(self) -> api.BrowserContext:
        return await self._browser.new_context(accept_downloads=False)

    async def end(self) -> None:
        """As `Browser.end`."""
        from playwright import async_api as api

        members = process_tree(self._root)
        with contextlib.suppress(api.Error, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await self._browser.close()
        await asyncio.to_thread(kill_tree, members)
        await asyncio.to_thread(reap_crash_handlers)
        await _clear(self._folder, self._local_proxy)


class PlaywrightTab:
    """One Playwright page."""

    def __init__(
        self,
        page: api.Page,
        own_context: api.BrowserContext | None,
        local_proxy: LocalProxy | None,
        recorder: PlaywrightRecorder | None = None,
    ) -> None:
        self._page = page
        self._recorder = recorder
        self._own_context = own_context
        self._local_proxy = local_proxy
        self._crashed = False
        self._dialog_seen = False
        self._popups: list[api.Page] = []
        self._closed = False
        self._closing: set[asyncio.Future[None]] = set()
        page.on("crash", self._crash)
        page.on("popup", self._popup)

    @property
    def must_close(self) -> bool:
        """As `Tab.must_close`."""
        left = self._dialog_seen or bool(self._popups)
        return self._crashed or left or self._own_context is not None or self._page.is_closed()

    async def watch_dialogs(self, context: api.BrowserContext) -> None:
        """Note dialogs, so that the tab is closed afterwards: endless dialogs would keep the next page from loading.

        This uses a separate debugging session: Playwright dismisses dialogs only if its own event has no listener.
        """
        session = await context.new_cdp_session(self._page)
        session.on("Page.javascriptDialogOpening", self._dialog)
        await session.send("Page.enable")

    async def _goto(self, url: str, seconds: float) -> api.Response | None:
        from playwright import async_api as api

        for _ in range(_NAVIGATION_RETRIES):
            try:
                return await self._page.goto(url, timeout=seconds * 1000)
            except api.Error as error:
                if "interrupted by another navigation" not in error.message:
                    raise
            # The error page of an earlier, abandoned navigation interrupted this one. Let it load first.
            with contextlib.suppress(api.Error):
                await self._page.wait_for_load_state(timeout=1000)
        return await self._page.goto(url, timeout=seconds * 1000)

    def allow(self, own: OwnHosts | None) -> None:
        """As `Tab.allow`."""
        if self._local_proxy is not None:
            self._local_proxy.allow(self, own)

    async def open(self, url: str, seconds: float) -> Opened:
        """As `Tab.open`."""
        from playwright import async_api as api

        if self._recorder is not None:
            self._recorder.clear()
        try:
            answer = await self._goto(url, seconds)
        except api.TimeoutError as error:
            raise TimedOutError(f"{mask_url(url)} did not load within {seconds:g} s") from error
        except api.Error as error:
            if self._crashed or self._page.is_closed():
                raise browser_died("the page crashed") from error
            raise navigation_fault(url, error.message, trouble_of(self._local_proxy, url)) from error
        if answer is None:
            return Opened(self._page.url, 200)
        return Opened(self._page.url, answer.status or 200, CIMultiDict(answer.headers))

    async def url(self) -> str:
        """As `Tab.url`."""
        return self._page.url

    async def html(self) -> str:
        """As `Tab.html`."""
        return await self._translated(self._page.content())

    async def screenshot(self) -> bytes:
        """As `Tab.screenshot`."""
        return await self._translated(self._page.screenshot())

    async def loaded(self) -> list[Exchange]:
        """As `Tab.loaded`."""
        return [] if self._recorder is None else await self._recorder.loaded()

    async def wait_for(self, selector: str, seconds: float) -> None:
        """As `Tab.wait_for`."""
        await self._translated(self._page.wait_for_selector(selector, timeout=seconds * 1000, state="attached"))

    async def do(self, function: Callable[[api.Page], object]) -> object:
        """As `Tab.do`; the function gets the page of Playwright's async API."""
        value = function(self._page)
        return await self._translated(value) if inspect.isawaitable(value) else value

    async def close(self) -> None:
        """As `Tab.close`."""
        # The opener first: until it is closed, it can open more, which are announced while others are being closed.
        self._closed = True
        await self._translated(self._page.close())
        while self._popups:
            await self._translated(self._popups.pop().close())
        if self._own_context is not None:
            await self._translated(self._own_context.close())

    async def _translated(self, call: Awaitable[T]) -> T:
        from playwright import async_api as api

        try:
            return await call
        except api.TimeoutError as error:
            raise TimedOutError(first_line(error.message)) from error
        except api.Error as error:
            if self._crashed or means_died(error.message):
                raise browser_died("the page crashed" if self._crashed else error.message) from error
            raise

    def _crash(self, _: api.Page) -> None:
        self._crashed = True

    def _dialog(self, _: dict[str, Any]) -> None:
        self._dialog_seen = True

    def _popup(self, page: api.Page) -> None:
        self._popups.append(page)
        if self._closed:
            # It was announced too late for `close`. An error means that it, or the browser, is gone already.
            closing = asyncio.ensure_future(page.close())
            self._closing.add(closing)
            closing.add_done_callback(self._late_popup_closed)

    def _late_popup_closed(self, closing: asyncio.Future[None]) -> None:
        self._closing.discard(closing)
        if not closing.cancelled():
            closing.exception()


async def _intercept(
    context: api.BrowserContext, page: api.Page, patterns: list[dict[str, str]], answer: PausedAnswer
) -> None:
    """Answer requests that match `patterns`. Other requests are not intercepted, and the cache stays on.

    Playwright's own routing would send every request through this process and turn the cache off.
    """
    session = await context.new_cdp_session(page)

    async def answered(paused: dict[str, Any]) -> None:
        from playwright import async_api as api

        # If the page has navigated away, the request no longer exists.
        with contextlib.suppress(api.Error):
            await session.send(*answer(paused))

    session.on("Fetch.requestPaused", answered)
    await session.send("Fetch.enable", {"patterns": patterns})


def _all_marked(mark: str) -> list[psutil.Process]:
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(_MARK) == mark:
                found.append(process)
    return found


def _first_marked(mark: str) -> psutil.Process:
    """Return the browser's root process: the marked process without a `--type` argument."""
    for process in _all_marked(mark):
        with contextlib.suppress(psutil.Error):
            line = " ".join(process.cmdline())
            if "--remote-debugging-pipe" in line and "--type=" not in line:
                return process
    raise CrashedError("the browser died while it started")


def _profile_of(root: psutil.Process) -> str:
    """Return the profile folder that Playwright made for the browser; Playwright does not remove it when killed."""
    with contextlib.suppress(psutil.Error):
        for argument in root.cmdline():
            if argument.startswith(_USER_DATA) and _MADE_BY_PLAYWRIGHT in argument:
                return argument.removeprefix(_USER_DATA)
    return ""


def _driver_of(root: psutil.Process) -> psutil.Process | None:
    """Return Playwright's driver process: the browser's parent and our child; None if the driver has died."""
    with contextlib.suppress(psutil.Error):
        parent = root.parent()
        if parent is not None and parent.ppid() == os.getpid():
            return parent
    return None


async def _clear(folder: str, local_proxy: LocalProxy | None) -> None:
    if local_proxy is not None:
        await local_proxy.close()
    await asyncio.to_thread(remove_folder, folder)


def _why(error: api.Error) -> str:
    """Return the line of Playwright's long message that holds the browser's own error."""
    lines = [line.strip(" -╔║╚═") for line in error.message.splitlines()]
    telling = [line for line in lines if "[err]" in line or "error while loading" in line or "ENOENT" in line]
    return first_line("\n".join(telling or [line for line in lines if line]))
