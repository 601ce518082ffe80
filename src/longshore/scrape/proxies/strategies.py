"""Strategies: choose the proxy for the next request among those that do not rest.

A proxy is an index into the pool's list here. The memory of a strategy is bounded, because a crawl may visit millions
of hosts; a host that was dropped starts again like a new one.
"""

from __future__ import annotations

import hashlib
import random
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Sequence
from enum import StrEnum
from typing import Generic, Protocol, TypeVar

T = TypeVar("T")

REMEMBERED = 10_000
"""Hosts or sessions in memory."""


class Strategy(StrEnum):
    """The strategies for choosing a proxy."""

    ROUND_ROBIN = "round_robin"
    """One after another, for each host."""
    RANDOM = "random"
    LEAST_USED = "least_used"
    """The one with the fewest requests to this host."""
    STICKY = "sticky"
    """The same one for a session, or for a host if no session is named, as long as it does not rest."""


class ProxyChooser(Protocol):
    """A strategy with its memory."""

    def choose(self, available: Sequence[int], host: str, session: str) -> int:
        """Return one of `available`, which is sorted and not empty."""


def chooser(strategy: Strategy, names: Sequence[str], rng: random.Random) -> ProxyChooser:
    """Return a chooser for the proxies with these names."""
    match strategy:
        case Strategy.ROUND_ROBIN:
            return _RoundRobin(len(names), rng)
        case Strategy.RANDOM:
            return _Random(rng)
        case Strategy.LEAST_USED:
            return _LeastUsed(len(names))
        case Strategy.STICKY:
            return _Sticky(names)


def share(proxies: Sequence[T], worker: int, workers: int) -> list[T]:
    """Return the proxies of one worker of `workers`: each proxy has one worker; with fewer proxies, workers share."""
    if not 0 <= worker < workers:
        raise ValueError(f"There is no worker {worker} among {workers}: they are numbered 0 to {workers - 1}.")
    if len(proxies) <= workers:
        return list(proxies[worker % len(proxies) :][:1]) if proxies else []
    return list(proxies[worker::workers])


class _Remembered(Generic[T]):
    """A value for each of the most recently used names."""

    def __init__(self, new: Callable[[str], T]) -> None:
        self._new = new
        self._values: OrderedDict[str, T] = OrderedDict()

    def __getitem__(self, name: str) -> T:
        if name in self._values:
            self._values.move_to_end(name)
        else:
            self[name] = self._new(name)
        return self._values[name]

    def __setitem__(self, name: str, value: T) -> None:
        self._values[name] = value
        self._values.move_to_end(name)
        if len(self._values) > REMEMBERED:
            self._values.popitem(last=False)


class _RoundRobin:
    def __init__(self, count: int, rng: random.Random) -> None:
        # Many processes share the same list, so each starts at a random position.
        self._last = rng.randrange(count)
        # Each host has its own position; otherwise two hosts used alternately would each see half of the proxies. A new
        # host starts at the last position; otherwise the first proxy would get all of a million hosts used once.
        self._by_host = _Remembered(lambda _: self._last)

    def choose(self, available: Sequence[int], host: str, session: str) -> int:
        del session
        after = bisect_right(available, self._by_host[host])
        self._by_host[host] = self._last = available[after % len(available)]
        return self._last


class _Random:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    def choose(self, available: Sequence[int], host: str, session: str) -> int:
        del host, session
        return self._rng.choice(available)


class _Uses:
    """The number of uses of each proxy at one host, and the proxies that did not rest there last time."""

    def __init__(self, count: int) -> None:
        self.of = [0] * count
        self.available_before: Sequence[int] = range(count)


class _LeastUsed:
    def __init__(self, count: int) -> None:
        self._totals = [0] * count
        self._by_host = _Remembered(lambda _: _Uses(count))

    def choose(self, available: Sequence[int], host: str, session: str) -> int:
        del session
        uses = self._by_host[host]
        if available is not uses.available_before:
            self._catch_up(available, uses)
        chosen = min(available, key=lambda proxy: (uses.of[proxy], self._totals[proxy]))
        uses.of[chosen] += 1
        self._totals[chosen] += 1
        return chosen

    @staticmethod
    def _catch_up(available: Sequence[int], uses: _Uses) -> None:
        """Raise the count of a proxy that has rested to the least of the others.

        Otherwise it would get every request until it had caught up, and would be banned again.
        """
        before = frozenset(uses.available_before)
        least = min((uses.of[proxy] for proxy in available if proxy in before), default=0)
        for proxy in available:
            if proxy not in before:
                uses.of[proxy] = max(uses.of[proxy], least)
        uses.available_before = available


class _Sticky:
    """Rendezvous hashing: each key ranks the proxies by a hash and gets the first one that does not rest.

    So every process chooses the same proxy, only the keys of a resting proxy move, and they come back afterwards.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name.encode() for name in names]
        self._preferred = _Remembered(lambda key: self._first(range(len(names)), key))

    def choose(self, available: Sequence[int], host: str, session: str) -> int:
        key = f"session {session}" if session else f"host {host}"
        preferred = self._preferred[key]
        # Binary search: there may be thousands of proxies.
        position = bisect_right(available, preferred)
        return preferred if position and available[position - 1] == preferred else self._first(available, key)

    def _first(self, among: Sequence[int], key: str) -> int:
        salt = key.encode()
        return max(among, key=lambda proxy: hashlib.blake2b(self._names[proxy] + b"\0" + salt, digest_size=8).digest())
