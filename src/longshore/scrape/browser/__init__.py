"""Browsers: pages that need one, opened, read and pictured by Playwright or Selenium, behind one small interface."""

from __future__ import annotations

from longshore.scrape.browser.browsers import AttemptBrowsers, Browsers
from longshore.scrape.browser.command import BLOCKABLE
from longshore.scrape.browser.driver import Opened
from longshore.scrape.browser.finding import BrowserMissingError, Found, find_browser
from longshore.scrape.browser.page import Page
from longshore.scrape.browser.picture import Picture, picture_of
from longshore.scrape.browser.sync import SyncAttemptBrowsers, SyncBrowsers, SyncPage

__all__ = [
    "BLOCKABLE",
    "AttemptBrowsers",
    "BrowserMissingError",
    "Browsers",
    "Found",
    "Opened",
    "Page",
    "Picture",
    "SyncAttemptBrowsers",
    "SyncBrowsers",
    "SyncPage",
    "find_browser",
    "picture_of",
]
