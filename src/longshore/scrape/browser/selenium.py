"""Browsers driven by Selenium: one page at a time in each, for a driver session does one thing at a time."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import os
import re
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urldefrag

import psutil

from longshore.errors import ConnectionFailedError, CrashedError, TimedOutError
from longshore.scrape.browser.blocking import Blocker
from longshore.scrape.browser.command_line import RESOURCE_TYPES, arguments
from longshore.scrape.browser.downloads import browser_for_selenium
from longshore.scrape.browser.driver import BrowserLaunch, Opened
from longshore.scrape.browser.faults import death, download, first_line, is_death, navigation_fault
from longshore.scrape.browser.find_browser import needs
from longshore.scrape.browser.local_proxy import LocalProxy, local_proxy_for, trouble_of
from longshore.scrape.browser.processes import bury_strays, end_family, family, runs
from longshore.scrape.browser.profile_folders import new_folder, remove_folder
from longshore.system.processes import new_group_flags, with_lifeline
from longshore.url import mask_url

if TYPE_CHECKING:
    from selenium.webdriver import ChromeOptions
    from selenium.webdriver.remote.webdriver import WebDriver

T = TypeVar("T")

START_SECONDS = 60.0
_PORT = re.compile(rb"started successfully on port (\d+)")
_BLANK = "about:blank"
_ERROR_PAGE = "chrome-error:"
_DIALOGS = 10
"""In a row. A page that opens more does so without end."""
_NAMED_ERROR = re.compile(r"ERR_[A-Z0-9_]+")
# Which document this is, where it came from, and the status it came with, which Selenium itself does not tell.
_DOCUMENT = """
const [entry] = performance.getEntriesByType('navigation');
return [performance.timeOrigin, location.href, entry ? entry.responseStatus : 0];
"""


class SeleniumLauncher:
    """Starts Chromium, each with a driver process of its own."""

    def __init__(self, plan: BrowserLaunch) -> None:
        self._plan = plan
        self._programs: tuple[str, str] | None = None

    async def start(self, proxy: str | None) -> SeleniumBrowser:
        """As `Launcher.start`."""
        needs("selenium")
        from selenium.common.exceptions import WebDriverException
        from urllib3.exceptions import HTTPError

        if self._programs is None:
            self._programs = await browser_for_selenium(self._plan.path)
        program, driver_program = self._programs
        relay = await local_proxy_for(proxy)
        folder = await asyncio.to_thread(new_folder)
        thread = ThreadPoolExecutor(1, "longshore-selenium")
        process: Process | None = None
        try:
            async with asyncio.timeout(START_SECONDS):
                process = await _start_driver(driver_program, folder)
                port = await _port_of(process)
                options = _options(self._plan, program, folder, relay.server if relay else proxy)
                loop = asyncio.get_running_loop()
                driver = await loop.run_in_executor(thread, _connect, port, options)
                browser = SeleniumBrowser(driver, process, thread, folder, relay)
                await browser.block(self._plan.blocked)
                return browser
        except BaseException as error:
            await _end(process, thread, folder, relay)
            if isinstance(error, TimeoutError):
                raise CrashedError(f"the browser {program} did not start in {START_SECONDS:.0f} s") from error
            if isinstance(error, WebDriverException | HTTPError | OSError):
                raise CrashedError(f"the browser {program} did not start: {first_line(_words(error))}") from error
            raise

    async def close(self) -> None:
        """As `Launcher.close`: its browsers share nothing."""


class SeleniumBrowser:
    """One Chromium and its driver."""

    room = 1

    def __init__(
        self, driver: WebDriver, process: Process, thread: ThreadPoolExecutor, folder: str, relay: LocalProxy | None
    ) -> None:
        self.pid = process.pid
        self._root = _root_of(process)
        self._driver = driver
        self._process = process
        self._thread = thread
        self._folder = folder
        self._relay = relay
        self._blocker: Blocker | None = None
        self._crashed = False
        self._emptying = asyncio.create_task(_empty(process))

    @property
    def alive(self) -> bool:
        """As `Browser.alive`."""
        return not self._crashed and self._process.returncode is None and runs(self._root)

    async def block(self, blocked: frozenset[str]) -> None:
        """Stop requests of these types on their way."""
        if blocked:
            address = self._driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
            self._blocker = await Blocker.start(address, [RESOURCE_TYPES[name] for name in sorted(blocked)])

    async def new_tab(self) -> SeleniumTab:
        """As `Browser.new_tab`: the one there is."""
        return SeleniumTab(self, self._driver, self._relay)

    async def new_fresh_tab(self) -> SeleniumTab:
        """As `Browser.new_fresh_tab`: it forgets what the browser knew. Nobody else has a tab here."""
        from selenium.common.exceptions import WebDriverException

        try:
            await self.run(_forget, self._driver)
        except WebDriverException as error:
            raise death(_words(error)) from error
        return SeleniumTab(self, self._driver, self._relay)

    async def run(self, function: Callable[..., T], *given: Any) -> T:
        """Call a function in the browser's own thread. Raises `CrashedError` where the browser died."""
        from selenium.common.exceptions import WebDriverException
        from urllib3.exceptions import HTTPError

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *given)
        except HTTPError as error:
            self._crashed = True
            raise death("its driver does not answer") from error
        except WebDriverException as error:
            if is_death(_words(error)):
                self._crashed = True
                raise death(_words(error)) from error
            raise

    async def end(self) -> None:
        """As `Browser.end`."""
        await _end(self._process, self._thread, self._folder, self._relay)
        # After its processes: a browser that hangs would be waited for.
        if self._blocker is not None:
            await self._blocker.close()
        self._emptying.cancel()
        # Not `quit`, which would ask a driver that is gone.
        connection = self._driver.command_executor
        if not isinstance(connection, str):
            connection.close()  # type: ignore[no-untyped-call]


class SeleniumTab:
    """The window of a session."""

    def __init__(self, browser: SeleniumBrowser, driver: WebDriver, relay: LocalProxy | None) -> None:
        self._browser = browser
        self._driver = driver
        self._relay = relay

    @property
    def worn(self) -> bool:
        """As `Tab.worn`: what it opened is closed before the next page is."""
        return False

    async def open(self, url: str, seconds: float) -> Opened:
        """As `Tab.open`."""
        from selenium.common.exceptions import TimeoutException, WebDriverException

        try:
            return await self._browser.run(_visit, self._driver, url, seconds)
        except ConnectionFailedError as error:
            if (trouble := trouble_of(self._relay, url)) is None:
                raise
            raise navigation_fault(url, "", trouble) from error
        except TimeoutException as error:
            raise TimedOutError(f"{mask_url(url)} did not load within {seconds:g} s") from error
        except WebDriverException as error:
            raise navigation_fault(url, _words(error), trouble_of(self._relay, url)) from error

    async def url(self) -> str:
        """As `Tab.url`."""
        return await self._said(lambda: self._driver.current_url)

    async def html(self) -> str:
        """As `Tab.html`."""
        return await self._said(lambda: self._driver.page_source)

    async def screenshot(self) -> bytes:
        """As `Tab.screenshot`."""
        return await self._said(self._driver.get_screenshot_as_png)

    async def wait_for(self, selector: str, seconds: float) -> None:
        """As `Tab.wait_for`."""
        from selenium.common.exceptions import TimeoutException

        try:
            await self._browser.run(_wait_for, self._driver, selector, seconds)
        except TimeoutException as error:
            raise TimedOutError(f"nothing matched '{selector}' within {seconds:g} s") from error

    async def do(self, function: Callable[[WebDriver], object]) -> object:
        """As `Tab.do`; the function is given the `WebDriver`."""
        value = await self._browser.run(function, self._driver)
        return await value if inspect.isawaitable(value) else value

    async def _said(self, function: Callable[[], T]) -> T:
        from selenium.common.exceptions import TimeoutException

        try:
            return await self._browser.run(_past_dialogs, function)
        except TimeoutException as error:
            raise TimedOutError(first_line(_words(error))) from error

    async def close(self) -> None:
        """As `Tab.close`: the window stays, for a session ends with its last."""
        await self._browser.run(_tidy, self._driver)


def _visit(driver: WebDriver, url: str, seconds: float) -> Opened:
    from selenium.common.exceptions import UnexpectedAlertPresentException

    _past_dialogs(lambda: _close_others(driver))
    driver.set_page_load_timeout(seconds)
    before, *_ = _document(driver)
    # The driver has dismissed the dialog that it complains about, and the page has come all the same.
    with contextlib.suppress(UnexpectedAlertPresentException):
        driver.get(url)
    after, at, status = _document(driver)
    if at.startswith(_ERROR_PAGE):
        # The driver was told too late to say so itself; the page says why.
        why = _NAMED_ERROR.search(driver.execute_script("return document.documentElement.textContent") or "")
        reason = why[0] if why else "the browser refuses it"
        raise ConnectionFailedError(f"{mask_url(url)} could not be opened: {reason}")
    if before == after and urldefrag(at).url != urldefrag(url).url:
        raise download(url)
    return Opened(at, status or 200)


def _document(driver: WebDriver) -> tuple[float, str, int]:
    for _ in range(_DIALOGS):
        # A dialog in the way is dismissed, and the script with it.
        if (said := _past_dialogs(lambda: driver.execute_script(_DOCUMENT))) is not None:
            return said[0], said[1], said[2]
    raise death("its page says nothing of itself")


def _past_dialogs(function: Callable[[], T]) -> T:
    """Call a function. Dialogs in its way are dismissed by the driver, one at each call."""
    from selenium.common.exceptions import UnexpectedAlertPresentException

    for _ in range(_DIALOGS):
        with contextlib.suppress(UnexpectedAlertPresentException):
            return function()
    raise death("its page opens one dialog after another")


def _wait_for(driver: WebDriver, selector: str, seconds: float) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support import expected_conditions
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, seconds).until(expected_conditions.presence_of_element_located((By.CSS_SELECTOR, selector)))


def _tidy(driver: WebDriver) -> None:
    _close_others(driver)
    driver.get(_BLANK)


def _forget(driver: WebDriver) -> None:
    _tidy(driver)
    driver.execute_cdp_cmd("Network.clearBrowserCookies", {})
    driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    driver.execute_cdp_cmd("Storage.clearDataForOrigin", {"origin": "*", "storageTypes": "all"})


def _close_others(driver: WebDriver) -> None:
    first, *others = driver.window_handles
    for handle in others:
        driver.switch_to.window(handle)
        driver.close()
    if others:
        driver.switch_to.window(first)


def _options(plan: BrowserLaunch, program: str, folder: str, server: str | None) -> ChromeOptions:
    from selenium.webdriver import ChromeOptions

    options = ChromeOptions()
    options.binary_location = program
    options.unhandled_prompt_behavior = "dismiss"
    # Sites show a narrow window what they show a telephone.
    own = ["--headless", "--hide-scrollbars", "--window-size=1280,900", f"--user-data-dir={folder}/profile"]
    for argument in (*own, *arguments(blocked=plan.blocked, proxy_server=server, user_agent=plan.user_agent)):
        options.add_argument(argument)
    return options


def _connect(port: int, options: ChromeOptions) -> WebDriver:
    from selenium.webdriver import Remote
    from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection

    # A proxy of the environment is for sites, not for the driver beside us.
    connection = ChromiumRemoteConnection(
        f"http://127.0.0.1:{port}", vendor_prefix="goog", browser_name="chrome", ignore_proxy=True
    )
    return Remote(connection, options=options)


async def _start_driver(program: str, folder: str) -> Process:
    command = [program, "--port=0"]
    return await asyncio.create_subprocess_exec(
        # A driver that loses its client goes on for ever; its lifeline ends it however this process dies.
        *with_lifeline(command),
        stdin=PIPE,
        stdout=PIPE,
        stderr=DEVNULL,
        env={**os.environ, "TMPDIR": folder},
        start_new_session=True,
        creationflags=new_group_flags(),
    )


async def _port_of(process: Process) -> int:
    output = process.stdout
    while output is not None and (line := await output.readline()):
        if found := _PORT.search(line):
            return int(found[1])
    raise CrashedError("the browser's driver did not start: it ended at once")


async def _empty(process: Process) -> None:
    """Read what the driver goes on to say: a pipe that is full would stop it."""
    output = process.stdout
    while output is not None and await output.read(4096):
        pass


def _root_of(process: Process) -> psutil.Process:
    """The browser's first process, below its driver and the lifeline."""
    with contextlib.suppress(psutil.Error):
        for member in family(psutil.Process(process.pid)):
            if any(argument.startswith("--user-data-dir=") for argument in member.cmdline()):
                return member
    raise CrashedError("the browser died while it started")


async def _end(process: Process | None, thread: ThreadPoolExecutor, folder: str, relay: LocalProxy | None) -> None:
    if process is not None:
        await asyncio.to_thread(_kill, process, folder)
        await process.wait()
        await asyncio.to_thread(bury_strays)
        # asyncio closes it only when every pipe has ended.
        process._transport.close()  # type: ignore[attr-defined]
    thread.shutdown(wait=False, cancel_futures=True)
    if relay is not None:
        await relay.close()
    await asyncio.to_thread(remove_folder, folder)


def _kill(process: Process, folder: str) -> None:
    members: list[psutil.Process] = []
    # While its exit status has not been asked for, its number cannot be another's.
    if process.returncode is None:
        with contextlib.suppress(psutil.Error):
            members = family(psutil.Process(process.pid))
    if len(members) < 2:
        # The lifeline was killed alone. Those it held are known by the folder they were given.
        members += _given(folder)
    end_family(members, waited_for=process.pid)


def _given(folder: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("TMPDIR") == folder:
                found.append(process)
    return found


def _words(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error)
