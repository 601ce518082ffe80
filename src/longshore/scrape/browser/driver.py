"""The driver interface: a launcher starts browsers, a browser has tabs. Playwright and Selenium each implement it.

Drivers translate failures into the errors of `longshore.errors`: `CrashedError` if a tab or browser died,
`TimedOutError`, `ConnectionFailedError` if the site cannot be reached, `ValidationError` for an invalid URL. The
browser pool, not the driver, decides when browsers are started, shared and ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import msgspec

from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.http.address_policy import AddressPolicy, OwnHosts

DriverPage: TypeAlias = Any
"""The driver's own page: Playwright's async `Page` or Selenium's `WebDriver`, depending on the setting `browser`.

Typed as `Any`: a type checker does not know the setting, and either driver may not be installed.
"""


PausedAnswer: TypeAlias = Callable[[Mapping[str, Any]], tuple[str, dict[str, Any]]]
"""Takes a paused request of the browser's debugging protocol; returns the command that answers it."""


class Opened(msgspec.Struct, frozen=True):
    """The result of opening a URL."""

    url: str
    """The URL of the page, after redirects."""
    status: int
    """The HTTP status; 200 for pages without one, such as a file."""
    headers: Mapping[str, str] = {}
    """The response headers, with case-insensitive names; empty if the driver does not report them (Selenium)."""


@dataclass(frozen=True, kw_only=True)
class BrowserLaunch:
    """The options that browsers are started with."""

    blocked: frozenset[str] = frozenset()
    """Resource types that are not loaded, from `command_line.BLOCKABLE`."""
    path: str | None = None
    """The browser's program; None searches for one."""
    user_agent: str | None = None
    policy: AddressPolicy = field(default_factory=AddressPolicy)
    """The addresses that pages may reach."""
    record: bool = False
    """Whether tabs note what their pages load, for `Tab.loaded`."""
    answer: PausedAnswer | None = None
    """Answers every request instead of the network."""


class Tab(Protocol):
    """One browser tab, used by one caller at a time."""

    @property
    def must_close(self) -> bool:
        """Whether the tab must be closed after this page: it crashed, or popups and dialogs would stay open."""

    def allow(self, own: OwnHosts | None) -> None:
        """Let the page reach the hosts of its job, even on a private network; None ends it."""

    async def open(self, url: str, seconds: float) -> Opened:
        """Open `url` and return when the page and its resources have loaded; `seconds` limits the wait."""

    async def url(self) -> str:
        """Return the current URL."""

    async def html(self) -> str:
        """Return the current document, as the page's scripts have changed it."""

    async def screenshot(self) -> bytes:
        """Return a PNG of the visible part of the page."""

    async def loaded(self) -> list[Exchange]:
        """Return the responses that the open page has loaded, each only once; see `recording` for what is left out."""

    async def wait_for(self, selector: str, seconds: float) -> None:
        """Return when an element matches the CSS selector; `seconds` limits the wait."""

    async def do(self, function: Callable[[DriverPage], object]) -> object:
        """Call `function` with the driver's own page and return its value; an awaitable value is awaited."""

    async def close(self) -> None:
        """Close the tab and the popups it opened."""


class Browser(Protocol):
    """One running browser and all its processes."""

    @property
    def pid(self) -> int:
        """The id of its root process; all others descend from it."""

    @property
    def max_tabs(self) -> int:
        """The maximum number of tabs in use at once."""

    @property
    def alive(self) -> bool:
        """Whether the browser still runs, as far as we know without sending it a command."""

    async def new_tab(self) -> Tab:
        """Return a new tab that shares cookies and cache with the other tabs."""

    async def new_fresh_tab(self) -> Tab:
        """Return a new tab with its own, empty cookies and cache."""

    async def end(self) -> None:
        """End the browser, by force if needed. On return none of its processes runs and its files are deleted."""


class Launcher(Protocol):
    """The driver's way to start browsers."""

    async def start(self, proxy: str | None) -> Browser:
        """Start a browser that sends all its requests through `proxy`.

        Raise `BrowserMissingError` if this machine has no browser, `CrashedError` if the browser does not start.
        """

    async def close(self) -> None:
        """Release the resources that its browsers share. The pool ends the browsers first."""
