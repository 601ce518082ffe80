"""Download a missing browser: Playwright downloads a browser, Selenium Manager a browser and its driver.

Both store their downloads in the user's cache folder and prevent two processes from downloading at the same time.
"""

from __future__ import annotations

import asyncio
import sys
from asyncio.subprocess import DEVNULL, PIPE, STDOUT

import structlog

from longshore.scrape.browser.faults import first_line
from longshore.scrape.browser.find_browser import (
    INSTALL,
    BrowserMissingError,
    FoundBrowser,
    find_browser,
    find_chromedriver,
)

_FETCH_SECONDS = 600.0

log = structlog.get_logger()


async def browser_for_playwright(path: str | None) -> str:
    """Return the browser's program; download one if there is none. Raise `BrowserMissingError` if that fails."""
    try:
        return (await asyncio.to_thread(find_browser, path, kind="playwright")).path
    except BrowserMissingError as missing:
        if path is not None:
            raise
        log.info("No browser on this machine: Playwright downloads one")
        await _install(missing)
        return (await asyncio.to_thread(find_browser, kind="playwright")).path


async def browser_for_selenium(path: str | None) -> tuple[str, str]:
    """Return the programs of the browser and its driver; download what is missing.

    Raise `BrowserMissingError` if that fails.
    """
    found: FoundBrowser | None
    try:
        found = await asyncio.to_thread(find_browser, path, kind="selenium")
        driver = await asyncio.to_thread(find_chromedriver, found.path)
        if driver is not None:
            return found.path, driver
    except BrowserMissingError:
        if path is not None:
            raise
        found = None
    log.info("No browser with its driver on this machine: Selenium Manager downloads what is missing")
    return await asyncio.to_thread(_ask_selenium_manager, found)


async def _install(missing: BrowserMissingError) -> None:
    command = [sys.executable, "-m", "playwright", "install", "chromium", "--only-shell"]
    process = await asyncio.create_subprocess_exec(*command, stdin=DEVNULL, stdout=PIPE, stderr=STDOUT)
    try:
        async with asyncio.timeout(_FETCH_SECONDS):
            output, _ = await process.communicate()
    except TimeoutError:
        raise BrowserMissingError(_download_failed(f"it took more than {_FETCH_SECONDS:.0f} s")) from missing
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise BrowserMissingError(_download_failed(_reason(output.decode(errors="replace")))) from missing


def _ask_selenium_manager(found: FoundBrowser | None) -> tuple[str, str]:
    from selenium.common.exceptions import WebDriverException
    from selenium.webdriver.common.selenium_manager import SeleniumManager

    wanted = ["--browser", "chrome", *(["--browser-path", found.path] if found is not None else [])]
    try:
        paths = SeleniumManager().binary_paths(wanted)
    except WebDriverException as error:
        raise BrowserMissingError(_download_failed(_reason(error.msg or ""))) from error
    return paths["browser_path"], paths["driver_path"]


def _reason(output: str) -> str:
    """Return the first line of `output` that contains the word error, else its first line."""
    lines = [line for line in output.splitlines() if "error" in line.lower()]
    return first_line("\n".join(lines) or output)


def _download_failed(why: str) -> str:
    return f"This machine has no browser that can be driven, and none could be fetched ({why}). {INSTALL}"
