"""What stands behind a page: a launcher starts browsers, a browser has tabs. Playwright and Selenium each have theirs.

Drivers turn what goes wrong into the errors of `longshore.errors`: `CrashedError` for a tab or browser that died,
`TimedOutError`, `ConnectionFailedError` for a site that cannot be reached, `ValidationError` for what is no URL. When
to start, share and end browsers is not theirs to know (see `keeper`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import msgspec

DriverPage: TypeAlias = Any
"""The driver's own page: Playwright's `Page` (its async one) or Selenium's `WebDriver`, as the setting `browser` says.

Unchecked, because the setting is not known to a type checker, and either driver may not be installed.
"""


class Opened(msgspec.Struct, frozen=True):
    """What came of opening a URL."""

    url: str
    """Where it ended, after redirects."""
    status: int
    """The status of the answer; 200 for what has none, such as a file."""
    headers: Mapping[str, str] = {}
    """Of the answer, found by name in any case; none where the driver does not tell them (Selenium)."""


@dataclass(frozen=True, kw_only=True)
class BrowserLaunch:
    """How browsers are started."""

    blocked: frozenset[str] = frozenset()
    """Types of resources that are not loaded, of `command.BLOCKABLE`."""
    path: str | None = None
    """The browser's program; None has it found."""
    user_agent: str | None = None


class Tab(Protocol):
    """One tab. One caller at a time."""

    @property
    def worn(self) -> bool:
        """Whether it must not be used for another target: it crashed, or what it opened would stay behind."""

    async def open(self, url: str, seconds: float) -> Opened:
        """Go there, and return when the page and what belongs to it have loaded."""

    async def url(self) -> str:
        """Where it is now."""

    async def html(self) -> str:
        """The document as it is now, after scripts."""

    async def screenshot(self) -> bytes:
        """What is in view, as PNG."""

    async def wait_for(self, selector: str, seconds: float) -> None:
        """Return when something matches the CSS selector."""

    async def do(self, function: Callable[[DriverPage], object]) -> object:
        """Call the function with the driver's own page, and return its value, awaited where it is awaitable."""

    async def close(self) -> None:
        """Close it, and what it opened."""


class Browser(Protocol):
    """One running browser, with all its processes."""

    @property
    def pid(self) -> int:
        """Its first process; all others descend from it."""

    @property
    def room(self) -> int:
        """How many tabs it may have at once."""

    @property
    def alive(self) -> bool:
        """Whether it can still be talked to, as far as is known without asking."""

    async def new_tab(self) -> Tab:
        """A tab that shares cookies and cache with the others."""

    async def new_fresh_tab(self) -> Tab:
        """A tab that knows nothing of the others."""

    async def end(self) -> None:
        """End it, however it is: when this returns none of its processes runs, and none of its files is left."""


class Launcher(Protocol):
    """Starts browsers."""

    async def start(self, proxy: str | None) -> Browser:
        """Start one, all of whose requests go through the proxy.

        Raises `BrowserMissingError` where there is none, `CrashedError` where it does not start.
        """

    async def close(self) -> None:
        """Let go of what all its browsers shared. They have been ended before."""
