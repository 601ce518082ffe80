"""Counters: the requests, failures and state of each proxy, in total and per host."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from longshore.scrape.proxies.health import EVERYWHERE

COUNTED = 100
"""Hosts with their own counters: the most recently used ones."""


class HostCounters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The counters and state of a proxy at one host."""

    host: str
    """Empty for every host: the proxy itself fails."""
    state: str
    """`serving`, `resting` or `probation`."""
    requests: int = 0
    failed: int = 0
    failures: int = 0
    """The current number of failures in a row."""
    why: str = ""
    """The reason of the last failure or change."""
    since: float | None = None
    """When the state last changed, in seconds since 1970."""
    until: float | None = None
    """When its rest ends, in seconds since 1970."""


class ProxyCounters(msgspec.Struct, frozen=True, kw_only=True):
    """The counters of a proxy, in total and per host."""

    proxy: str
    """With its password masked."""
    requests: int
    succeeded: int
    failed: int
    places: tuple[HostCounters, ...]
    """The most recently used hosts and the hosts at which it fails; an empty host if the proxy itself fails."""

    @property
    def troubles(self) -> tuple[HostCounters, ...]:
        """The hosts at which its last request failed."""
        return tuple(place for place in self.places if place.failures)


class ProxyTotals(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How many proxies are in each state by themselves (at every host), and the outcomes of all requests."""

    serving: int = 0
    resting: int = 0
    probation: int = 0
    succeeded: int = 0
    failed: int = 0


class RequestCounts(msgspec.Struct):
    """The counts of a proxy, in total or at one host."""

    requests: int = 0
    succeeded: int = 0
    failed: int = 0
    since: float | None = None
    """When its state last changed."""


class RequestCounter:
    """The counts of all proxies, in total and for the most recently used hosts. A proxy is an index here."""

    def __init__(self, count: int) -> None:
        self._totals = [RequestCounts() for _ in range(count)]
        self._by_host: OrderedDict[str, dict[int, RequestCounts]] = OrderedDict()
        self.revision = 0
        """Increases with every count and change, so that a reader can tell whether anything is new."""

    def of(self, proxy: int) -> RequestCounts:
        """Return the total counts of a proxy."""
        return self._totals[proxy]

    def places(self, proxy: int) -> Iterator[tuple[str, RequestCounts]]:
        """Return the counts of a proxy, host by host."""
        return ((host, by_proxy[proxy]) for host, by_proxy in self._by_host.items() if proxy in by_proxy)

    def begun(self, proxy: int, host: str) -> None:
        """Count a request that begins."""
        for counts in self._both(proxy, host):
            counts.requests += 1

    def ended(self, proxy: int, host: str, *, well: bool) -> None:
        """Count the outcome of a request."""
        for counts in self._both(proxy, host):
            if well:
                counts.succeeded += 1
            else:
                counts.failed += 1

    def changed(self, proxy: int, place: str, now: float) -> None:
        """Record when the proxy's state at `place` changed."""
        self.revision += 1
        counts = self._totals[proxy] if place == EVERYWHERE else self._at_host(proxy, place)
        counts.since = now

    def _both(self, proxy: int, host: str) -> tuple[RequestCounts, RequestCounts]:
        self.revision += 1
        return self._totals[proxy], self._at_host(proxy, host)

    def _at_host(self, proxy: int, host: str) -> RequestCounts:
        by_proxy = self._by_host.get(host)
        if by_proxy is None:
            by_proxy = self._by_host[host] = {}
            if len(self._by_host) > COUNTED:
                self._by_host.popitem(last=False)
        else:
            self._by_host.move_to_end(host)
        return by_proxy.get(proxy) or by_proxy.setdefault(proxy, RequestCounts())
