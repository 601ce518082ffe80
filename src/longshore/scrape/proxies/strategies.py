"""Which of the proxies that are open makes the next request.

Proxies are numbers here: their places in the pool's list. What a strategy remembers of hosts is bounded, because a
crawl meets more hosts than it is worth remembering; one that was forgotten begins like a new one.
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
"""Hosts, or sessions."""


class Strategy(StrEnum):
    """How a proxy is chosen."""

    ROUND_ROBIN = "round_robin"
    """One after another, for each host."""
    RANDOM = "random"
    LEAST_USED = "least_used"
    """The one with the fewest requests to this host."""
    STICKY = "sticky"
    """The same one for a session, or for a host where no session is named, as long as it serves."""


class ProxyChooser(Protocol):
    """A strategy at work."""

    def choose(self, open_ones: Sequence[int], host: str, session: str) -> int:
        """One of these, which are in order and not empty."""


def chooser(strategy: Strategy, names: Sequence[str], chance: random.Random) -> ProxyChooser:
    """The strategy at work on the proxies of these names."""
    match strategy:
        case Strategy.ROUND_ROBIN:
            return _RoundRobin(len(names), chance)
        case Strategy.RANDOM:
            return _Random(chance)
        case Strategy.LEAST_USED:
            return _LeastUsed(len(names))
        case Strategy.STICKY:
            return _Sticky(names)


def share(proxies: Sequence[T], worker: int, workers: int) -> list[T]:
    """The slice of one worker of so many: every proxy has one worker. Where there are fewer proxies, workers share."""
    if not 0 <= worker < workers:
        raise ValueError(f"There is no worker {worker} among {workers}: they are numbered 0 to {workers - 1}.")
    if len(proxies) <= workers:
        return list(proxies[worker % len(proxies) :][:1]) if proxies else []
    return list(proxies[worker::workers])


class _Remembered(Generic[T]):
    """A value for each of the names seen last."""

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
    def __init__(self, count: int, chance: random.Random) -> None:
        # Many processes have the same list: they begin at different places of it.
        self._last = chance.randrange(count)
        # A turn of its own for each host, or two hosts asked in turn would see half of the proxies each. A new one goes
        # on where the others are, or the first proxy would get all of a million hosts asked once.
        self._at = _Remembered(lambda _: self._last)

    def choose(self, open_ones: Sequence[int], host: str, session: str) -> int:
        del session
        after = bisect_right(open_ones, self._at[host])
        self._at[host] = self._last = open_ones[after % len(open_ones)]
        return self._last


class _Random:
    def __init__(self, chance: random.Random) -> None:
        self._chance = chance

    def choose(self, open_ones: Sequence[int], host: str, session: str) -> int:
        del host, session
        return self._chance.choice(open_ones)


class _Uses:
    """How often each proxy was used at one host, and who was open there the last time."""

    def __init__(self, count: int) -> None:
        self.of = [0] * count
        self.open_before: Sequence[int] = range(count)


class _LeastUsed:
    def __init__(self, count: int) -> None:
        self._in_all = [0] * count
        self._at = _Remembered(lambda _: _Uses(count))

    def choose(self, open_ones: Sequence[int], host: str, session: str) -> int:
        del session
        uses = self._at[host]
        if open_ones is not uses.open_before:
            self._welcome(open_ones, uses)
        chosen = min(open_ones, key=lambda proxy: (uses.of[proxy], self._in_all[proxy]))
        uses.of[chosen] += 1
        self._in_all[chosen] += 1
        return chosen

    @staticmethod
    def _welcome(open_ones: Sequence[int], uses: _Uses) -> None:
        """Who has rested must not make up for it, or every request would go there until it is banned again."""
        before = frozenset(uses.open_before)
        least = min((uses.of[proxy] for proxy in open_ones if proxy in before), default=0)
        for proxy in open_ones:
            if proxy not in before:
                uses.of[proxy] = max(uses.of[proxy], least)
        uses.open_before = open_ones


class _Sticky:
    """Each key ranks the proxies by a hash, and gets the first one that is open.

    So every process finds the same one, a key whose proxy rests moves alone, and it comes back afterwards.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._names = [name.encode() for name in names]
        self._favourite = _Remembered(lambda key: self._first(range(len(names)), key))

    def choose(self, open_ones: Sequence[int], host: str, session: str) -> int:
        key = f"session {session}" if session else f"host {host}"
        favourite = self._favourite[key]
        # Found by halves, for there may be thousands.
        place = bisect_right(open_ones, favourite)
        return favourite if place and open_ones[place - 1] == favourite else self._first(open_ones, key)

    def _first(self, among: Sequence[int], key: str) -> int:
        salt = key.encode()
        return max(among, key=lambda proxy: hashlib.blake2b(self._names[proxy] + b"\0" + salt, digest_size=8).digest())
