"""A real Chromium and its driver, for tests and benchmarks."""

from __future__ import annotations

import shutil

from tests.services.needing import needed
from tests.services.postgres import ServiceMissingError

from longshore.scrape.browser import BrowserMissingError, find_browser

MISSING = "No {} was found. Fix: install it (Debian: apt-get install chromium chromium-driver)"


def need_chromium() -> None:
    """Skip the test where there is no Chromium or no driver for it; in CI, fail."""
    with needed():
        _look()


def _look() -> None:
    try:
        find_browser()
    except BrowserMissingError as missing:
        raise ServiceMissingError(MISSING.format("Chromium")) from missing
    if shutil.which("chromedriver") is None:
        raise ServiceMissingError(MISSING.format("chromedriver"))
