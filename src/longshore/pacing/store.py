"""The `RateStore` protocol: where the rates of hosts are kept, so that all processes that ask a host share its rate.

`LocalRateStore` is the store of a single process.
"""

from __future__ import annotations

from itertools import count
from typing import Protocol

import msgspec

from longshore.clock import Clock, SystemClock
from longshore.pacing.host_rate import HostRate, worth_keeping
from longshore.stored import LATEST, UNFIT


class StoredRate(msgspec.Struct, frozen=True):
    """The result of a read: the entry and when it was read."""

    now: float
    """The time of the read, by the clock that all processes share."""
    version: str
    """Empty if there is no entry."""
    host_rate: HostRate | None


_SLOWEST, _FASTEST = 1e-9, 1e9
_MOST_PLANNED, _SHORTEST_GAP = 100, 0.001


class RateStore(Protocol):
    """Keeps the rate of each host under a name. A write replaces only the version it names (compare-and-swap).

    Methods raise the errors of the store's medium.
    """

    @property
    def per_machine(self) -> bool:
        """Return whether each machine has a store of its own, and so learns only its share of a host's rate."""

    async def read(self, name: str) -> StoredRate:
        """Return the entry of this name."""

    async def write(self, name: str, version: str, host_rate: HostRate) -> str | None:
        """Replace `version` of the entry. Return the new version, or None if another process wrote first."""

    async def close_host(self, host: str, until: float) -> None:
        """Announce to all that the host is closed until then. A longer closure stays."""

    async def closures(self) -> tuple[float, dict[str, float]]:
        """Return the time, and until when each closed host is closed.

        The cost depends on the number of closed hosts only, not on the number of known hosts.
        """

    async def all(self) -> tuple[float, dict[str, HostRate]]:
        """Return the time, and all entries by name."""

    async def forget(self) -> int:
        """Delete the entries that are not worth keeping, and return their number.

        An entry that changes in the meantime stays.
        """

    def close(self) -> None:
        """Release files and connections. Closing twice is harmless."""


def entry_name(host: str, identity: str) -> str:
    """Return the name under which the rate of a host is stored; each identity has an entry of its own."""
    return f"{host} via {identity}" if identity else host


def decode_rate(value: object) -> HostRate | None:
    """Return the stored rate, or None if there is none or it cannot be read, for example by another version.

    A rate that cannot be read, or that no worker can have learned, is learned again.
    """
    try:
        known = None if value is None else msgspec.convert(value, HostRate)
    except UNFIT:
        return None
    return known if known is not None and _is_possible(known) else None


def decode_instant(value: object, name: str) -> float | None:
    """Return the instant `name` in a stored value; None if there is none, or if it cannot be read."""
    found = value.get(name) if isinstance(value, dict) else None
    return float(found) if isinstance(found, int | float) and abs(found) <= LATEST else None


def _is_possible(known: HostRate) -> bool:
    """Return whether all numbers are in a range in which they can be calculated with."""
    rates = (known.rate, *(rate for _, rate in known.plan))
    return (
        len(known.plan) <= _MOST_PLANNED
        and min(known.ceiling, known.overshot, known.burst, known.width, known.crawl_delay) >= 0
        and (known.gap == 0 or known.gap >= _SHORTEST_GAP)
        and all(_SLOWEST <= rate <= _FASTEST for rate in rates)
        and all(abs(each) <= LATEST for each in msgspec.structs.astuple(known) if isinstance(each, int | float))
        and all(abs(instant) <= LATEST for instant, _ in known.plan)
    )


def may_forget(value: object, now: float) -> bool:
    """Return whether a stored rate may be deleted. An entry that cannot be read stays: another version may need it."""
    known = decode_rate(value)
    return known is not None and not worth_keeping(known, now)


class LocalRateStore:
    """A `RateStore` in memory, for one process."""

    per_machine = False

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._entries: dict[str, tuple[str, HostRate]] = {}
        self._closed: dict[str, float] = {}
        self._versions = count(1)

    async def read(self, name: str) -> StoredRate:
        version, host_rate = self._entries.get(name, ("", None))
        return StoredRate(self._clock.now(), version, host_rate)

    async def write(self, name: str, version: str, host_rate: HostRate) -> str | None:
        if version != self._entries.get(name, ("", None))[0]:
            return None
        new = str(next(self._versions))
        self._entries[name] = (new, host_rate)
        return new

    async def close_host(self, host: str, until: float) -> None:
        self._closed[host] = max(until, self._closed.get(host, 0.0))

    async def closures(self) -> tuple[float, dict[str, float]]:
        now = self._clock.now()
        self._closed = {host: until for host, until in self._closed.items() if until > now}
        return now, dict(self._closed)

    async def all(self) -> tuple[float, dict[str, HostRate]]:
        return self._clock.now(), {name: host_rate for name, (_, host_rate) in self._entries.items()}

    async def forget(self) -> int:
        now = self._clock.now()
        before = len(self._entries)
        self._entries = {name: entry for name, entry in self._entries.items() if worth_keeping(entry[1], now)}
        return before - len(self._entries)

    def close(self) -> None:
        """Do nothing: there is nothing to release."""
