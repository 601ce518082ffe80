"""Find the browser: the one the user names, Playwright's own, the system's, or one that Selenium downloaded.

Nothing here starts a browser or imports a driver. The module `downloads` downloads a browser if none is found.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Literal

import msgspec

from longshore.errors import ProcessingError
from longshore.system.cache_dir import user_cache_dir

Kind = Literal["playwright", "selenium"]

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome", "chrome")
_PLACES = {
    "darwin": (
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
    ),
    "win32": (
        r"%PROGRAMFILES%\Google\Chrome\Application\chrome.exe",
        r"%PROGRAMFILES(X86)%\Google\Chrome\Application\chrome.exe",
        r"%LOCALAPPDATA%\Google\Chrome\Application\chrome.exe",
    ),
}
# Sorted newest first by the number in the folder's name; the small headless build before the full browser.
_PLAYWRIGHT_PATTERNS = (
    "chromium_headless_shell-*/*/headless_shell*",
    "chromium_headless_shell-*/*/chrome-headless-shell*",
    "chromium-*/*/chrome",
    "chromium-*/*/chrome.exe",
    "chromium-*/*/*.app/Contents/MacOS/*",
)
_SELENIUM_PATTERNS = ("chrome/*/*/chrome", "chrome/*/*/chrome.exe", "chrome/*/*/*.app/Contents/MacOS/*")
_NUMBER = re.compile(r"\d+")

INSTALL = (
    "Fix: install one (Debian: apt-get install chromium chromium-driver; anywhere: python -m playwright install"
    " chromium), or name the program of one you have."
)


class BrowserMissingError(ProcessingError):
    """This machine has no browser. Retryable: another machine may have one."""


def require_driver(kind: Kind) -> None:
    """Raise `BrowserMissingError` if the driver library `kind` is not installed."""
    if find_spec(kind) is None:
        raise BrowserMissingError(
            f"kit.browser needs {kind}, which is not installed. "
            f"Fix: pip install '.[browser]' where Longshore was cloned."
        )


class FoundBrowser(msgspec.Struct, frozen=True):
    """A browser on this machine."""

    path: str
    origin: str
    """The source: `named` (by the user), `playwright`, `system` or `selenium`."""


def find_browser(path: str | None = None, *, kind: Kind = "playwright") -> FoundBrowser:
    """Return the browser that the driver `kind` would start; `path` names one explicitly.

    Playwright prefers its own browser, which it was tested with. Selenium prefers the system's, which comes with its
    driver. Raise `BrowserMissingError` if there is none.
    """
    if path is not None:
        program = shutil.which(path)
        if program is None:
            raise BrowserMissingError(f"The browser {path} does not exist or is no program. {INSTALL}")
        return FoundBrowser(program, "named")
    own, system = _playwright_browsers(), _system_browsers()
    for found in (*own, *system) if kind == "playwright" else (*system, *_selenium_browsers(), *own):
        return found
    raise BrowserMissingError(f"This machine has no browser: neither Chromium nor Chrome. {INSTALL}")


def find_chromedriver(browser: str) -> str | None:
    """Return the chromedriver on this machine if its major version equals that of `browser`, else None."""
    program = shutil.which("chromedriver")
    if program is None:
        return None
    return program if major_version(program) == major_version(browser) else None


def major_version(program: str) -> int | None:
    """Return the first number that `program --version` prints; None if it prints none."""
    try:
        printed = subprocess.run(  # noqa: S603
            [program, "--version"], capture_output=True, text=True, timeout=20, check=False, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _NUMBER.search(printed.stdout)
    return int(found[0]) if found else None


def _system_browsers() -> Iterator[FoundBrowser]:
    for name in _PROGRAMS:
        if program := shutil.which(name):
            yield FoundBrowser(program, "system")
    for place in _PLACES.get(sys.platform, ()):
        if program := shutil.which(os.path.expandvars(place)):
            yield FoundBrowser(program, "system")


def _playwright_browsers() -> Iterator[FoundBrowser]:
    named = os.environ.get("PLAYWRIGHT_BROWSERS_PATH")
    folder = Path(named) if named and named != "0" else user_cache_dir() / "ms-playwright"
    return _within(folder, _PLAYWRIGHT_PATTERNS, "playwright")


def _selenium_browsers() -> Iterator[FoundBrowser]:
    # Selenium uses this folder on every operating system.
    folder = Path(os.environ.get("SE_CACHE_PATH", Path.home() / ".cache" / "selenium"))
    return _within(folder, _SELENIUM_PATTERNS, "selenium")


def _within(folder: Path, patterns: tuple[str, ...], origin: str) -> Iterator[FoundBrowser]:
    for pattern in patterns:
        for place in sorted(folder.glob(pattern), key=_numbers, reverse=True):
            if place.is_file() and os.access(place, os.X_OK):
                yield FoundBrowser(str(place), origin)


def _numbers(place: Path) -> list[int]:
    return [int(number) for number in _NUMBER.findall(str(place))]
