"""The health of each proxy at each host, and of each proxy by itself.

A proxy that one site bans serves the others; a proxy that cannot be reached serves nobody. So trouble is counted for a
proxy at a host, and, at `EVERYWHERE`, for the proxy itself. At either place:

    serving     ──  so many failures in a row  ──▶  resting
    resting     ──  so long                    ──▶  on probation: one request is let through
    on probation──  it succeeds                ──▶  serving, all forgotten
    on probation──  it fails                   ──▶  resting

A request that began before its proxy was sent to rest says nothing new when it ends, whichever way it does.
No clock is read here: whoever calls says what time it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

EVERYWHERE = ""
"""The place of a proxy's own troubles."""
REMEMBERED = 10_000
"""Hosts with troubles. Beyond that, the oldest troubles are forgotten, but for those of hosts where a proxy rests."""


class ProxyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """When a proxy is sent to rest, and for how long."""

    threshold: int = 10
    """Failures in a row."""
    rest: timedelta = timedelta(minutes=60)

    def __post_init__(self) -> None:
        if self.threshold < 1 or self.rest <= timedelta(0):
            raise ValueError("A proxy rests after at least 1 failure, and for a time above 0.")


class ProxyTrouble(msgspec.Struct):
    """What is wrong with a proxy at one place."""

    failures: int = 0
    """In a row."""
    why: str = ""
    """Of the last one."""
    until: float | None = None
    """When its rest ends, or has ended; None while it serves."""
    trying: bool = False
    """Whether the request that is let through on probation is under way."""

    def shut(self, now: float) -> bool:
        """Whether no request may begin."""
        return self.until is not None and now < self.until


class ProxyHealth:
    """Who is well where."""

    def __init__(self, limits: ProxyLimits) -> None:
        self._limits = limits
        self._places: dict[str, dict[int, ProxyTrouble]] = {EVERYWHERE: {}}

    def open_ones(self, proxies: Sequence[int], host: str, now: float) -> Sequence[int]:
        """Those that may make a request to the host now. The very same sequence where all may."""
        itself, there = self._places[EVERYWHERE], self._places.get(host, {})
        shut = {proxy for place in (itself, there) for proxy, ailment in place.items() if ailment.shut(now)}
        return [proxy for proxy in proxies if proxy not in shut] if shut else proxies

    def opens_at(self, proxies: Sequence[int], host: str) -> tuple[float, bool]:
        """When the first of those that rest is open to the host, and whether a try under way may open one before.

        Only to be asked where none of them is open.
        """
        ailing = [
            [ailment for place in (EVERYWHERE, host) if (ailment := self._at(proxy, place)) is not None]
            for proxy in proxies
        ]
        first = min(max(ailment.until or 0.0 for ailment in each) for each in ailing)
        return first, any(ailment.trying for each in ailing for ailment in each)

    def begin(self, proxy: int, host: str, now: float) -> tuple[str, ...]:
        """A request begins. Gives the places where it is the one that probation lets through."""
        tries = []
        for place in (EVERYWHERE, host):
            ailment = self._at(proxy, place)
            if ailment is not None and ailment.until is not None and now >= ailment.until:
                # Its next rest begins with the try: one that is never heard of again keeps nobody out for good.
                ailment.until = now + self._limits.rest.total_seconds()
                ailment.trying = True
                tries.append(place)
        return tuple(tries)

    def fail(self, proxy: int, place: str, now: float, why: str, tries: tuple[str, ...]) -> ProxyTrouble | None:
        """A request failed there. Gives the ailment where that sends the proxy to rest."""
        ailment = self._at(proxy, place) or self._enter(proxy, place, now)
        if ailment.until is not None and place not in tries:
            return None
        ailment.failures += 1
        ailment.why = why
        if ailment.until is None and ailment.failures < self._limits.threshold:
            return None
        ailment.until = now + self._limits.rest.total_seconds()
        ailment.trying = False
        return ailment

    def succeed(self, proxy: int, place: str, tries: tuple[str, ...]) -> bool:
        """A request went well there. Gives whether that ends a probation."""
        ailment = self._at(proxy, place)
        if ailment is None or (ailment.until is not None and place not in tries):
            return False
        del self._places[place][proxy]
        if place != EVERYWHERE and not self._places[place]:
            del self._places[place]
        return ailment.until is not None

    def give_back(self, proxy: int, place: str, now: float) -> None:
        """The try ended and says nothing: the next request is let through in its place."""
        if (ailment := self._at(proxy, place)) is not None and ailment.trying:
            ailment.trying = False
            ailment.until = now

    def ailments(self) -> Iterator[tuple[str, int, ProxyTrouble]]:
        """What is wrong, place by place, with which proxy; first the proxies' own troubles."""
        for place, ailing in self._places.items():
            for proxy, ailment in ailing.items():
                yield place, proxy, ailment

    def _at(self, proxy: int, place: str) -> ProxyTrouble | None:
        return self._places.get(place, {}).get(proxy)

    def _enter(self, proxy: int, place: str, now: float) -> ProxyTrouble:
        if place not in self._places and len(self._places) > REMEMBERED:
            self._forget(now)
        made = self._places.setdefault(place, {})[proxy] = ProxyTrouble()
        return made

    def _forget(self, now: float) -> None:
        for place, ailing in self._places.items():
            if place != EVERYWHERE and not any(ailment.shut(now) for ailment in ailing.values()):
                del self._places[place]
                return
