"""How the proxies stand: what each has done, at each host, and what became of it there."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator

import msgspec

from longshore.scrape.proxies.health import EVERYWHERE

COUNTED = 100
"""Hosts whose requests are counted by themselves: those that were asked last."""


class HostCounters(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a proxy does at one host."""

    host: str
    """Empty for every host: it is the proxy's own trouble."""
    state: str
    """`serving`, `resting` or `probation`."""
    requests: int = 0
    failed: int = 0
    failures: int = 0
    """In a row, up to now."""
    why: str = ""
    """Of the last failure, or of the last change."""
    since: float | None = None
    """When it was last sent to rest, tried again, or found to serve again, in seconds since 1970."""
    until: float | None = None
    """When its rest ends, in seconds since 1970."""


class ProxyCounters(msgspec.Struct, frozen=True, kw_only=True):
    """How a proxy has done so far."""

    proxy: str
    """With its password masked."""
    requests: int
    succeeded: int
    failed: int
    places: tuple[HostCounters, ...]
    """The hosts it was used at last, those where it has troubles, and, where those are its own, every host."""

    @property
    def troubles(self) -> tuple[HostCounters, ...]:
        """Where it does not serve, or may soon not."""
        return tuple(place for place in self.places if place.failures)


class RequestCounts(msgspec.Struct):
    """What is counted of a proxy."""

    requests: int = 0
    succeeded: int = 0
    failed: int = 0
    since: float | None = None
    """When it was last sent to rest, or came back."""


class RequestCounter:
    """What is counted of every proxy, in all and at each of the hosts asked last. Proxies are numbers here."""

    def __init__(self, count: int) -> None:
        self._in_all = [RequestCounts() for _ in range(count)]
        self._at: OrderedDict[str, dict[int, RequestCounts]] = OrderedDict()
        self.moves = 0
        """Rises with all that is counted, so that whoever has looked knows whether to look again."""

    def of(self, proxy: int) -> RequestCounts:
        """In all."""
        return self._in_all[proxy]

    def places(self, proxy: int) -> Iterator[tuple[str, RequestCounts]]:
        """Host by host."""
        return ((host, there[proxy]) for host, there in self._at.items() if proxy in there)

    def begun(self, proxy: int, host: str) -> None:
        """A request begins."""
        for tally in self._both(proxy, host):
            tally.requests += 1

    def ended(self, proxy: int, host: str, *, well: bool) -> None:
        """A request came to a verdict."""
        for tally in self._both(proxy, host):
            if well:
                tally.succeeded += 1
            else:
                tally.failed += 1

    def changed(self, proxy: int, place: str, now: float) -> None:
        """The proxy was sent to rest there, is tried again, or serves again."""
        self.moves += 1
        tally = self._in_all[proxy] if place == EVERYWHERE else self._there(proxy, place)
        tally.since = now

    def _both(self, proxy: int, host: str) -> tuple[RequestCounts, RequestCounts]:
        self.moves += 1
        return self._in_all[proxy], self._there(proxy, host)

    def _there(self, proxy: int, host: str) -> RequestCounts:
        there = self._at.get(host)
        if there is None:
            there = self._at[host] = {}
            if len(self._at) > COUNTED:
                self._at.popitem(last=False)
        else:
            self._at.move_to_end(host)
        return there.get(proxy) or there.setdefault(proxy, RequestCounts())
