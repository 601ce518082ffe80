"""Browser pages for handlers: Playwright or Selenium opens, reads and photographs them, behind one small interface."""

from __future__ import annotations

from longshore.scrape.browser.browsers import AttemptBrowsers, BrowserOptions, Browsers
from longshore.scrape.browser.command_line import BLOCKABLE
from longshore.scrape.browser.driver import Opened
from longshore.scrape.browser.find_browser import BrowserMissingError, FoundBrowser, find_browser
from longshore.scrape.browser.page import BrowserPage, PageRecording
from longshore.scrape.browser.screenshot import Screenshot, picture_of
from longshore.scrape.browser.sync_browsers import SyncAttemptBrowsers, SyncBrowsers, SyncPage

__all__ = [
    "BLOCKABLE",
    "AttemptBrowsers",
    "BrowserMissingError",
    "BrowserOptions",
    "BrowserPage",
    "Browsers",
    "FoundBrowser",
    "Opened",
    "PageRecording",
    "Screenshot",
    "SyncAttemptBrowsers",
    "SyncBrowsers",
    "SyncPage",
    "find_browser",
    "picture_of",
]
