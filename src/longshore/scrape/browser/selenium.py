"""Browsers driven by Selenium: one page at a time in each, because a driver session runs one command at a time."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import os
import re
import secrets
from asyncio.subprocess import DEVNULL, PIPE, Process
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import urldefrag

import psutil

from longshore.errors import ConnectionFailedError, CrashedError, TimedOutError
from longshore.scrape.browser.blocking import EVERYTHING, Blocker
from longshore.scrape.browser.command_line import RESOURCE_TYPES, arguments
from longshore.scrape.browser.downloads import browser_for_selenium
from longshore.scrape.browser.driver import BrowserLaunch, Opened
from longshore.scrape.browser.faults import browser_died, download, first_line, means_died, navigation_fault
from longshore.scrape.browser.find_browser import require_driver
from longshore.scrape.browser.local_proxy import LocalProxy, local_proxy_for, trouble_of
from longshore.scrape.browser.processes import is_alive, kill_tree, process_tree, reap_crash_handlers
from longshore.scrape.browser.profile_folders import new_folder, remove_folder
from longshore.scrape.browser.recording import SeleniumRecorder
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.address_policy import OwnHosts
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
"""Dialogs in a row that are dismissed. A page that opens more is taken to open them endlessly."""
_NAMED_ERROR = re.compile(r"ERR_[A-Z0-9_]+")
# The identity of the document, its URL and its HTTP status, which Selenium itself does not report.
_DOCUMENT = """
const [entry] = performance.getEntriesByType('navigation');
return [performance.timeOrigin, location.href, entry ? entry.responseStatus : 0];
"""


class SeleniumLauncher:
    """The launcher of Chromium; each browser has its own driver process."""

    def __init__(self, launch: BrowserLaunch) -> None:
        self._launch_options = launch
        self._programs: tuple[str, str] | None = None

    async def start(self, proxy: str | None) -> SeleniumBrowser:
        """As `Launcher.start`."""
        require_driver("selenium")
        from selenium.common.exceptions import WebDriverException
        from urllib3.exceptions import HTTPError

        if self._programs is None:
            self._programs = await browser_for_selenium(self._launch_options.path)
        program, driver_program = self._programs
        local_proxy = await local_proxy_for(proxy, self._launch_options.policy)
        folder = await asyncio.to_thread(new_folder)
        thread = ThreadPoolExecutor(1, "longshore-selenium")
        process: Process | None = None
        try:
            async with asyncio.timeout(START_SECONDS):
                path = secrets.token_urlsafe(32)
                process = await _start_driver(driver_program, folder, path)
                address = f"http://127.0.0.1:{await _port_of(process)}/{path}"
                options = _options(self._launch_options, program, folder, local_proxy.server if local_proxy else proxy)
                loop = asyncio.get_running_loop()
                driver = await loop.run_in_executor(thread, _connect, address, options)
                browser = SeleniumBrowser(driver, process, thread, folder, local_proxy)
                await browser.intercept(self._launch_options)
                return browser
        except BaseException as error:
            await _end(process, thread, folder, local_proxy)
            if isinstance(error, TimeoutError):
                raise CrashedError(f"the browser {program} did not start in {START_SECONDS:.0f} s") from error
            if isinstance(error, WebDriverException | HTTPError | OSError):
                raise CrashedError(f"the browser {program} did not start: {first_line(_message(error))}") from error
            raise

    async def close(self) -> None:
        """As `Launcher.close`; there is nothing to release, because its browsers share nothing."""


class SeleniumBrowser:
    """One Chromium browser and its driver process."""

    max_tabs = 1

    def __init__(
        self,
        driver: WebDriver,
        process: Process,
        thread: ThreadPoolExecutor,
        folder: str,
        local_proxy: LocalProxy | None,
    ) -> None:
        self.pid = process.pid
        self._root = _root_of(process)
        self._driver = driver
        self._process = process
        self._thread = thread
        self._folder = folder
        self._local_proxy = local_proxy
        self._blocker: Blocker | None = None
        self._recorder: SeleniumRecorder | None = None
        self._crashed = False
        self._draining = asyncio.create_task(_drain_output(process))

    @property
    def alive(self) -> bool:
        """As `Browser.alive`."""
        return not self._crashed and self._process.returncode is None and is_alive(self._root)

    async def intercept(self, launch: BrowserLaunch) -> None:
        """Refuse, answer and record requests as `launch` says."""
        if launch.record:
            self._recorder = SeleniumRecorder(self._driver)
        if _needs_port(launch):
            address = self._driver.capabilities["goog:chromeOptions"]["debuggerAddress"]
            if launch.answer is not None:
                self._blocker = await Blocker.start(address, EVERYTHING, launch.answer)
            else:
                types = [{"resourceType": RESOURCE_TYPES[name]} for name in sorted(launch.blocked)]
                self._blocker = await Blocker.start(address, types)

    async def new_tab(self) -> SeleniumTab:
        """As `Browser.new_tab`; a Selenium browser has a single tab."""
        return SeleniumTab(self, self._driver, self._local_proxy, self._recorder)

    async def new_fresh_tab(self) -> SeleniumTab:
        """As `Browser.new_fresh_tab`: clear the browser's data. No other page is in use in this browser."""
        from selenium.common.exceptions import WebDriverException

        try:
            await self.run(_clear_data, self._driver)
        except WebDriverException as error:
            raise browser_died(_message(error)) from error
        return SeleniumTab(self, self._driver, self._local_proxy, self._recorder)

    async def run(self, function: Callable[..., T], *args: Any) -> T:
        """Call a function in the browser's own thread. Raise `CrashedError` if the browser died."""
        from selenium.common.exceptions import WebDriverException
        from urllib3.exceptions import HTTPError

        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
        except HTTPError as error:
            self._crashed = True
            raise browser_died("its driver does not respond") from error
        except WebDriverException as error:
            if means_died(_message(error)):
                self._crashed = True
                raise browser_died(_message(error)) from error
            raise

    async def end(self) -> None:
        """As `Browser.end`."""
        await _end(self._process, self._thread, self._folder, self._local_proxy)
        # Only after its processes are killed: closing would wait for a browser that hangs.
        if self._blocker is not None:
            await self._blocker.close()
        self._draining.cancel()
        # Not `quit`: it would send a command to a driver that has ended.
        connection = self._driver.command_executor
        if not isinstance(connection, str):
            connection.close()  # type: ignore[no-untyped-call]


class SeleniumTab:
    """The window of a driver session."""

    def __init__(
        self,
        browser: SeleniumBrowser,
        driver: WebDriver,
        local_proxy: LocalProxy | None,
        recorder: SeleniumRecorder | None = None,
    ) -> None:
        self._browser = browser
        self._recorder = recorder
        self._driver = driver
        self._local_proxy = local_proxy

    @property
    def must_close(self) -> bool:
        """As `Tab.must_close`: never, because `open` closes popups and dialogs first."""
        return False

    def allow(self, own: OwnHosts | None) -> None:
        """As `Tab.allow`."""
        if self._local_proxy is not None:
            self._local_proxy.allow(self, own)

    async def open(self, url: str, seconds: float) -> Opened:
        """As `Tab.open`."""
        from selenium.common.exceptions import TimeoutException, WebDriverException

        try:
            if self._recorder is not None:
                await self._browser.run(self._recorder.clear)
            return await self._browser.run(_visit, self._driver, url, seconds)
        except ConnectionFailedError as error:
            if (trouble := trouble_of(self._local_proxy, url)) is None:
                raise
            raise navigation_fault(url, "", trouble) from error
        except TimeoutException as error:
            raise TimedOutError(f"{mask_url(url)} did not load within {seconds:g} s") from error
        except WebDriverException as error:
            raise navigation_fault(url, _message(error), trouble_of(self._local_proxy, url)) from error

    async def url(self) -> str:
        """As `Tab.url`."""
        return await self._translated(lambda: self._driver.current_url)

    async def html(self) -> str:
        """As `Tab.html`."""
        return await self._translated(lambda: self._driver.page_source)

    async def screenshot(self) -> bytes:
        """As `Tab.screenshot`."""
        return await self._translated(self._driver.get_screenshot_as_png)

    async def loaded(self) -> list[Exchange]:
        """As `Tab.loaded`."""
        return [] if self._recorder is None else await self._browser.run(self._recorder.loaded)

    async def wait_for(self, selector: str, seconds: float) -> None:
        """As `Tab.wait_for`."""
        from selenium.common.exceptions import TimeoutException

        try:
            await self._browser.run(_wait_for, self._driver, selector, seconds)
        except TimeoutException as error:
            raise TimedOutError(f"nothing matched '{selector}' within {seconds:g} s") from error

    async def do(self, function: Callable[[WebDriver], object]) -> object:
        """As `Tab.do`; the function gets the `WebDriver`."""
        value = await self._browser.run(function, self._driver)
        return await value if inspect.isawaitable(value) else value

    async def _translated(self, function: Callable[[], T]) -> T:
        from selenium.common.exceptions import TimeoutException

        try:
            return await self._browser.run(_without_dialogs, function)
        except TimeoutException as error:
            raise TimedOutError(first_line(_message(error))) from error

    async def close(self) -> None:
        """As `Tab.close`, but the window stays open: the session would end with its last window."""
        await self._browser.run(_reset, self._driver)


def _visit(driver: WebDriver, url: str, seconds: float) -> Opened:
    from selenium.common.exceptions import UnexpectedAlertPresentException

    _without_dialogs(lambda: _close_others(driver))
    driver.set_page_load_timeout(seconds)
    before, *_ = _document(driver)
    # The driver has dismissed the dialog that it reports, and the page has loaded.
    with contextlib.suppress(UnexpectedAlertPresentException):
        driver.get(url)
    after, at, status = _document(driver)
    if at.startswith(_ERROR_PAGE):
        # The driver did not report the error itself; the browser's error page names it.
        why = _NAMED_ERROR.search(driver.execute_script("return document.documentElement.textContent") or "")
        reason = why[0] if why else "the browser refused it"
        raise ConnectionFailedError(f"{mask_url(url)} could not be opened: {reason}")
    if before == after and urldefrag(at).url != urldefrag(url).url:
        raise download(url)
    return Opened(at, status or 200)


def _document(driver: WebDriver) -> tuple[float, str, int]:
    for _ in range(_DIALOGS):
        # Dismissing a dialog also ends the script, which then returns None.
        if (found := _without_dialogs(lambda: driver.execute_script(_DOCUMENT))) is not None:
            return found[0], found[1], found[2]
    raise browser_died("its page does not report its URL")


def _without_dialogs(function: Callable[[], T]) -> T:
    """Call `function` again until no dialog interrupts it; the driver dismisses one dialog at each call."""
    from selenium.common.exceptions import UnexpectedAlertPresentException

    for _ in range(_DIALOGS):
        with contextlib.suppress(UnexpectedAlertPresentException):
            return function()
    raise browser_died("its page opens one dialog after another")


def _wait_for(driver: WebDriver, selector: str, seconds: float) -> None:
    from selenium.webdriver.common.by import By
    from selenium.webdriver.support import expected_conditions
    from selenium.webdriver.support.wait import WebDriverWait

    WebDriverWait(driver, seconds).until(expected_conditions.presence_of_element_located((By.CSS_SELECTOR, selector)))


def _reset(driver: WebDriver) -> None:
    _close_others(driver)
    driver.get(_BLANK)


def _clear_data(driver: WebDriver) -> None:
    _reset(driver)
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


def _options(launch: BrowserLaunch, program: str, folder: str, server: str | None) -> ChromeOptions:
    from selenium.webdriver import ChromeOptions

    options = ChromeOptions()
    options.binary_location = program
    options.unhandled_prompt_behavior = "dismiss"
    # In a narrow window many sites show their mobile version.
    own = ["--headless", "--hide-scrollbars", "--window-size=1280,900", f"--user-data-dir={folder}/profile"]
    if launch.record:
        options.set_capability("goog:loggingPrefs", {"performance": "ALL"})
        options.add_experimental_option("perfLoggingPrefs", {"enableNetwork": True, "enablePage": False})
    if not _needs_port(launch):
        # The debugging port obeys every user of this machine; a pipe obeys only the driver. `Blocker` needs the port.
        own.append("--remote-debugging-pipe")
    for argument in (*own, *arguments(blocked=launch.blocked, proxy_server=server, user_agent=launch.user_agent)):
        options.add_argument(argument)
    return options


def _needs_port(launch: BrowserLaunch) -> bool:
    return bool(launch.blocked) or launch.answer is not None


def _connect(address: str, options: ChromeOptions) -> WebDriver:
    from selenium.webdriver import Remote
    from selenium.webdriver.chromium.remote_connection import ChromiumRemoteConnection

    # Their debug lines hold whole pages, and the secret path of the driver.
    for library in ("selenium", "urllib3"):
        logging.getLogger(library).setLevel(logging.INFO)

    # The proxy named in the environment is for sites, not for the driver on this machine.
    connection = ChromiumRemoteConnection(address, vendor_prefix="goog", browser_name="chrome", ignore_proxy=True)
    return Remote(connection, options=options)


async def _start_driver(program: str, folder: str, path: str) -> Process:
    # The driver obeys everyone who can connect to it and knows the secret path.
    command = [program, "--port=0", f"--url-base=/{path}"]
    return await asyncio.create_subprocess_exec(
        # A driver without its client runs forever; the lifeline ends it even if this process is killed.
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
    raise CrashedError("the browser's driver did not start: it exited at once")


async def _drain_output(process: Process) -> None:
    """Read and discard the driver's output: the driver would block on a full pipe."""
    output = process.stdout
    while output is not None and await output.read(4096):
        pass


def _root_of(process: Process) -> psutil.Process:
    """Return the browser's root process, a descendant of its driver and the lifeline."""
    with contextlib.suppress(psutil.Error):
        for member in process_tree(psutil.Process(process.pid)):
            if any(argument.startswith("--user-data-dir=") for argument in member.cmdline()):
                return member
    raise CrashedError("the browser died while it started")


async def _end(
    process: Process | None, thread: ThreadPoolExecutor, folder: str, local_proxy: LocalProxy | None
) -> None:
    if process is not None:
        await asyncio.to_thread(_kill, process, folder)
        await process.wait()
        await asyncio.to_thread(reap_crash_handlers)
        # By itself, asyncio closes the transport only when every pipe has ended.
        process._transport.close()  # type: ignore[attr-defined]
    thread.shutdown(wait=False, cancel_futures=True)
    if local_proxy is not None:
        await local_proxy.close()
    await asyncio.to_thread(remove_folder, folder)


def _kill(process: Process, folder: str) -> None:
    members: list[psutil.Process] = []
    # Until its exit status is collected, its process id cannot be reused.
    if process.returncode is None:
        with contextlib.suppress(psutil.Error):
            members = process_tree(psutil.Process(process.pid))
    if len(members) < 2:
        # Only the lifeline was killed. Find its children by the temporary folder in their environment.
        members += _processes_with(folder)
    kill_tree(members, waited_for=process.pid)


def _processes_with(folder: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("TMPDIR") == folder:
                found.append(process)
    return found


def _message(error: Exception) -> str:
    return str(getattr(error, "msg", None) or error)
