"""Where the standing of hosts is kept, so that all who ask them share it; and a shelf for a process on its own."""

from __future__ import annotations

from itertools import count
from typing import Protocol

import msgspec

from longshore.clock import Clock, SystemClock
from longshore.pacing.host_rate import HostRate, worth_keeping


class StoredRate(msgspec.Struct, frozen=True):
    """What was found under a name, and when."""

    now: float
    """That instant, by the clock that all share."""
    version: str
    """Empty where nothing is kept."""
    standing: HostRate | None


class RateStore(Protocol):
    """Keeps a standing under each name. Nobody overwrites what he has not read. Raises what its medium raises."""

    async def read(self, name: str) -> StoredRate:
        """What is kept under this name now."""

    async def write(self, name: str, version: str, standing: HostRate) -> str | None:
        """Put this in the place of that version. The new version, or None where another was faster: nothing is done."""

    async def close_host(self, host: str, until: float) -> None:
        """Let all know that the host is closed until then. One that is closed for longer stays so."""

    async def closures(self) -> tuple[float, dict[str, float]]:
        """Now, and until when each closed host is. Costs as much as there are of them, however many hosts are known."""

    async def all(self) -> tuple[float, dict[str, HostRate]]:
        """Now, and everything that is kept, by name."""

    async def forget(self) -> int:
        """Take away what is not worth keeping, and return how many that were. What changes meanwhile stays."""


def line_name(host: str, identity: str) -> str:
    """The name under which the standing of a host is kept, with an identity's own where there is one."""
    return f"{host} via {identity}" if identity else host


class LocalRateStore:
    """A shelf in memory, for one process."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._kept: dict[str, tuple[str, HostRate]] = {}
        self._closed: dict[str, float] = {}
        self._versions = count(1)

    async def read(self, name: str) -> StoredRate:
        version, standing = self._kept.get(name, ("", None))
        return StoredRate(self._clock.now(), version, standing)

    async def write(self, name: str, version: str, standing: HostRate) -> str | None:
        if version != self._kept.get(name, ("", None))[0]:
            return None
        new = str(next(self._versions))
        self._kept[name] = (new, standing)
        return new

    async def close_host(self, host: str, until: float) -> None:
        self._closed[host] = max(until, self._closed.get(host, 0.0))

    async def closures(self) -> tuple[float, dict[str, float]]:
        now = self._clock.now()
        self._closed = {host: until for host, until in self._closed.items() if until > now}
        return now, dict(self._closed)

    async def all(self) -> tuple[float, dict[str, HostRate]]:
        return self._clock.now(), {name: standing for name, (_, standing) in self._kept.items()}

    async def forget(self) -> int:
        now = self._clock.now()
        before = len(self._kept)
        self._kept = {name: kept for name, kept in self._kept.items() if worth_keeping(kept[1], now)}
        return before - len(self._kept)
