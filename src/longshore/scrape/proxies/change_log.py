"""The log of proxy changes: one line in `logs/proxies.log` for each change of a proxy's state."""

from __future__ import annotations

import contextlib
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

import msgspec

from longshore.scrape.proxies.proxy_file import Proxy
from longshore.system.private_files import make_private


class ProxyEvent(StrEnum):
    """The kinds of change."""

    RESTS = "rests"
    """A proxy has failed too often: its rest (cooldown) begins."""
    TRIES = "tries"
    """Its rest is over: one trial request is let through."""
    SERVES = "serves"
    """The trial request succeeded."""
    WAITS = "waits"
    """All proxies rest at a host. Logged once, for any number of waiting requests."""
    GOES_ON = "goes on"
    """A proxy serves the host again."""


class ProxyChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a proxy's state. `str()` returns its log line, with passwords masked."""

    at: float
    """Seconds since 1970."""
    what: ProxyEvent
    proxy: Proxy | None = None
    """None if the change is about all proxies."""
    host: str = ""
    """The host; empty for every host."""
    until: float | None = None
    """When the rest ends, or until when requests wait at least. Seconds since 1970."""
    why: str = ""

    def __str__(self) -> str:
        who = "every proxy" if self.proxy is None else str(self.proxy)
        until = "" if self.until is None else f", until {_instant(self.until)}"
        why = f": {self.why}" if self.why else ""
        return f"{_instant(self.at)} {self.what:<7} {who} at {self.host or 'every host'}{until}{why}"


class ChangeLog:
    """A log file of changes, which several processes may share."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __call__(self, change: ProxyChange) -> None:
        """Append a line. On a full disk the line is lost, but no error is raised: the work must go on."""
        with contextlib.suppress(OSError):
            make_private(self._path.parent)
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{change}\n")


def _instant(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
