"""The health of each proxy at each host, and of each proxy by itself.

A proxy that one site bans still serves other sites; a proxy that cannot be reached serves none. So failures are counted
for a proxy at a host, and, at `EVERYWHERE`, for the proxy itself. In both cases:

    serving     ──  `threshold` failures in a row  ──▶  resting (a cooldown)
    resting     ──  after `rest`                   ──▶  on probation: one trial request is let through
    on probation──  the trial succeeds             ──▶  serving, failures cleared
    on probation──  the trial fails                ──▶  resting

The outcome of a request that began before its proxy was sent to rest is ignored.
No clock is read here: the caller passes the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import timedelta

import msgspec

EVERYWHERE = ""
"""The place of a proxy's own failures."""
REMEMBERED = 10_000
"""Hosts with failures. Beyond that, the oldest entries are dropped, except for hosts where a proxy rests."""


class ProxyLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits after which a proxy rests, and for how long."""

    threshold: int = 10
    """Failures in a row until it rests."""
    rest: timedelta = timedelta(minutes=60)

    def __post_init__(self) -> None:
        if self.threshold < 1 or self.rest <= timedelta(0):
            raise ValueError("A proxy rests after 1 failure or more, and for a time above 0. Raise threshold or rest.")


class ProxyTrouble(msgspec.Struct):
    """The failures of a proxy at one place."""

    failures: int = 0
    """Failures in a row."""
    why: str = ""
    """The reason of the last failure."""
    until: float | None = None
    """When its rest ends or ended; None while it serves."""
    trying: bool = False
    """Whether the trial request of the probation is in flight."""

    def rests(self, now: float) -> bool:
        """Return whether the proxy rests, so that no request may begin."""
        return self.until is not None and now < self.until


class ProxyHealth:
    """The failures of all proxies at all places. A proxy is an index here."""

    def __init__(self, limits: ProxyLimits) -> None:
        self._limits = limits
        self._places: dict[str, dict[int, ProxyTrouble]] = {EVERYWHERE: {}}

    def available(self, proxies: Sequence[int], host: str, now: float) -> Sequence[int]:
        """Return the proxies that do not rest at the host now; the same sequence object if none rests."""
        everywhere, here = self._places[EVERYWHERE], self._places.get(host, {})
        resting = {proxy for place in (everywhere, here) for proxy, trouble in place.items() if trouble.rests(now)}
        return [proxy for proxy in proxies if proxy not in resting] if resting else proxies

    def first_rest_ends_at(self, proxies: Sequence[int], host: str) -> tuple[float, bool]:
        """Return when the first rest at the host ends, and whether a trial in flight may end one earlier.

        Call this only if all of `proxies` rest.
        """
        troubles = [
            [trouble for place in (EVERYWHERE, host) if (trouble := self._at(proxy, place)) is not None]
            for proxy in proxies
        ]
        first = min(max(trouble.until or 0.0 for trouble in each) for each in troubles)
        return first, any(trouble.trying for each in troubles for trouble in each)

    def begin(self, proxy: int, host: str, now: float) -> tuple[str, ...]:
        """Record that a request begins; return the places at which it is the trial request of a probation."""
        tries = []
        for place in (EVERYWHERE, host):
            trouble = self._at(proxy, place)
            if trouble is not None and trouble.until is not None and now >= trouble.until:
                # Start the next rest with the trial: if its outcome is never reported, another trial follows.
                trouble.until = now + self._limits.rest.total_seconds()
                trouble.trying = True
                tries.append(place)
        return tuple(tries)

    def fail(self, proxy: int, place: str, now: float, why: str, tries: tuple[str, ...]) -> ProxyTrouble | None:
        """Record a failed request; return the trouble if the proxy rests from now on, else None."""
        trouble = self._at(proxy, place) or self._add(proxy, place, now)
        if trouble.until is not None and place not in tries:
            return None
        trouble.failures += 1
        trouble.why = why
        if trouble.until is None and trouble.failures < self._limits.threshold:
            return None
        trouble.until = now + self._limits.rest.total_seconds()
        trouble.trying = False
        return trouble

    def succeed(self, proxy: int, place: str, tries: tuple[str, ...]) -> bool:
        """Record a successful request; return whether it ended a probation."""
        trouble = self._at(proxy, place)
        if trouble is None or (trouble.until is not None and place not in tries):
            return False
        del self._places[place][proxy]
        if place != EVERYWHERE and not self._places[place]:
            del self._places[place]
        return trouble.until is not None

    def give_back(self, proxy: int, place: str, now: float) -> None:
        """Record that the trial ended without an outcome: the next request becomes the trial."""
        if (trouble := self._at(proxy, place)) is not None and trouble.trying:
            trouble.trying = False
            trouble.until = now

    def troubles(self) -> Iterator[tuple[str, int, ProxyTrouble]]:
        """Yield place, proxy and trouble for all troubles; those at `EVERYWHERE` come first."""
        for place, troubles in self._places.items():
            for proxy, trouble in troubles.items():
                yield place, proxy, trouble

    def _at(self, proxy: int, place: str) -> ProxyTrouble | None:
        return self._places.get(place, {}).get(proxy)

    def _add(self, proxy: int, place: str, now: float) -> ProxyTrouble:
        if place not in self._places and len(self._places) > REMEMBERED:
            self._drop_oldest(now)
        trouble = self._places.setdefault(place, {})[proxy] = ProxyTrouble()
        return trouble

    def _drop_oldest(self, now: float) -> None:
        for place, troubles in self._places.items():
            if place != EVERYWHERE and not any(trouble.rests(now) for trouble in troubles.values()):
                del self._places[place]
                return
