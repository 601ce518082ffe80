"""What becomes of the proxies, told as it happens: a line in `logs/proxies.log` for each change."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from longshore.scrape.proxies.proxy_file import Proxy


class ProxyEvent(StrEnum):
    """What has changed."""

    RESTS = "rests"
    """A proxy has failed too often."""
    TRIES = "tries"
    """Its rest is over, and one request is let through."""
    SERVES = "serves"
    """That one went well."""
    WAITS = "waits"
    """No proxy is left for a host. Said once, however many requests wait."""
    GOES_ON = "goes on"
    """One serves it again."""


class ProxyChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change in what the proxies do. As text it is a line of the log, with passwords masked."""

    at: float
    """Seconds since 1970."""
    what: ProxyEvent
    proxy: Proxy | None = None
    """None where it is about all of them."""
    host: str = ""
    """Where; empty for everywhere."""
    until: float | None = None
    """How long it rests, or how long requests wait at least. Seconds since 1970."""
    why: str = ""

    def __str__(self) -> str:
        who = "every proxy" if self.proxy is None else str(self.proxy)
        until = "" if self.until is None else f", until {_instant(self.until)}"
        why = f": {self.why}" if self.why else ""
        return f"{_instant(self.at)} {self.what:<7} {who} at {self.host or 'every host'}{until}{why}"


class ChangeLog:
    """Appends changes to a file that several processes may share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, change: ProxyChange) -> None:
        """Write a line. A disk that is full costs the line and nothing else: the work is worth more."""
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{change}\n")


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
