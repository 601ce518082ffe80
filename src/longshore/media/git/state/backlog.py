"""The pending jobs in claim order: by priority, then hosts in turn (round-robin), then by age within a host.

Entries of jobs that are no longer pending are dropped only when they come to the top of a heap, so removing a job costs
nothing. Numbers and lanes may be assigned to other jobs after a refused push, so they do not identify an entry: it is
valid while exactly the `JobPath` object that it was made for is pending.

Each lane and priority has a ring (a heap) of the hosts that it has jobs of, ordered by their last turn in any lane. The
next host is at the front of the ring, so very many hosts cost nothing, and each excluded host costs one step.
"""

from __future__ import annotations

import heapq
import random
from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import count, groupby
from typing import TypeAlias

from longshore.media.git.state.branch_files import JobPath

_Entry: TypeAlias = tuple[int, int, JobPath]
"""The job's number, the entry's serial number (so that two places are never compared), and the place."""
_Turn: TypeAlias = tuple[float, str]
"""The last turn of a host, and the host."""


class _Level:
    """The ready jobs of one lane and priority."""

    def __init__(self) -> None:
        self.lines: dict[str, list[_Entry]] = {}
        """A heap of jobs per host."""
        self.ring: list[_Turn] = []
        """A heap with one item per host, which may contain an outdated turn."""


class _Lane:
    def __init__(self) -> None:
        self.levels: dict[int, _Level] = {}
        self.priorities: list[int] = []
        """The priorities of the levels, sorted."""

    def level(self, priority: int) -> _Level:
        """Return the level of this priority, created if needed."""
        if priority not in self.levels:
            self.levels[priority] = _Level()
            insort(self.priorities, priority)
        return self.levels[priority]

    def drop(self, priority: int) -> None:
        """Remove a level if it is empty."""
        if priority in self.levels and not self.levels[priority].ring:
            del self.levels[priority]
            del self.priorities[bisect_left(self.priorities, priority)]


class Backlog:
    """The claim order of `pending`, which the owner updates."""

    def __init__(self, pending: Mapping[int, JobPath]) -> None:
        self._pending = pending
        self._lanes: dict[int, _Lane] = {}
        self._delayed: list[tuple[int, int, int, JobPath]] = []
        self._serial = count()
        self._turn = count(1)
        self._begun = False
        """Whether a host has had a turn."""
        self._turns: dict[str, float] = {}
        self._lines: Counter[str] = Counter()
        """The number of levels in which each host has a line."""
        self._taken: set[int] = set()
        """The numbers of jobs taken by the current call: a place that became pending twice has two entries."""

    def add(self, place: JobPath) -> None:
        """Add a job that has become pending."""
        if place.due is None:
            self._make_ready(place)
        else:
            heapq.heappush(self._delayed, (place.due, place.number, next(self._serial), place))

    def take(self, lanes: Sequence[int], without: Collection[str], limit: int, now: float) -> list[JobPath]:
        """Return the first due jobs of these lanes, except those of the hosts `without`. The caller must move all."""
        self._promote(now)
        self._begun = True
        asked = [self._lanes[number] for number in lanes if number in self._lanes]
        taken: list[JobPath] = []
        for priority in _ascending([list(lane.priorities) for lane in asked]):
            if len(taken) == limit:
                break
            levels = [lane.levels[priority] for lane in asked if priority in lane.levels]
            taken += self._by_turns(levels, without, limit - len(taken))
            for lane in asked:
                lane.drop(priority)
        self._taken.clear()
        return taken

    def has_work(self, lanes: Sequence[int], without: Collection[str], now: float) -> bool:
        """Return whether `take` would return a job."""
        self._promote(now)
        for lane in [self._lanes[number] for number in lanes if number in self._lanes]:
            for priority in list(lane.priorities):
                level, passed = lane.levels[priority], list[_Turn]()
                front = self._front(level, without, passed)
                _put_back(level, passed)
                if front is not None:
                    return True
                lane.drop(priority)
        return False

    def next_due(self) -> float | None:
        """Return the next instant at which a delayed job is due; None if no job is delayed."""
        while self._delayed and not self._counts(self._delayed[0][-1]):
            heapq.heappop(self._delayed)
        return self._delayed[0][0] / 1000 if self._delayed else None

    def _by_turns(self, levels: Sequence[_Level], without: Collection[str], limit: int) -> list[JobPath]:
        taken: list[JobPath] = []
        passed: list[list[_Turn]] = [[] for _ in levels]
        # The next host of each level; it may be outdated, because another level may have given that host a turn.
        fronts = [(0.0, "", which) for which in range(len(levels))]
        while fronts and len(taken) < limit:
            turn, host, which = heapq.heappop(fronts)
            front = self._front(levels[which], without, passed[which])
            if front is None:
                continue
            if front == (turn, host):
                lines = [line for level in levels if (line := self._line(level, host))]
                *_, place = heapq.heappop(min(lines))
                self._taken.add(place.number)
                taken.append(place)
                self._turns[host] = next(self._turn)
            heapq.heappush(fronts, (*front, which))
        for level, turns in zip(levels, passed, strict=True):
            _put_back(level, turns)
        return taken

    def _front(self, level: _Level, without: Collection[str], passed: list[_Turn]) -> _Turn | None:
        """Return the host whose turn it is. Excluded hosts are moved from the ring to `passed`."""
        while level.ring:
            turn, host = level.ring[0]
            if not self._line(level, host):
                heapq.heappop(level.ring)
                del level.lines[host]
                self._leave(host)
            elif turn != self._turns[host]:
                heapq.heapreplace(level.ring, (self._turns[host], host))
            elif host in without:
                passed.append(heapq.heappop(level.ring))
            else:
                return level.ring[0]
        return None

    def _line(self, level: _Level, host: str) -> list[_Entry]:
        """Return a host's line without the outdated entries at its top; it may be empty."""
        line = level.lines.get(host, [])
        while line and not self._counts(line[0][-1]):
            heapq.heappop(line)
        return line

    def _promote(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now * 1000:
            *_, place = heapq.heappop(self._delayed)
            if self._counts(place):
                self._make_ready(place)

    def _make_ready(self, place: JobPath) -> None:
        level = self._lanes.setdefault(place.lane, _Lane()).level(place.priority)
        if place.host not in level.lines:
            level.lines[place.host] = []
            heapq.heappush(level.ring, (self._enter(place.host), place.host))
        heapq.heappush(level.lines[place.host], (place.number, next(self._serial), place))

    def _enter(self, host: str) -> float:
        """Count one more line of a host and return its turn.

        A new host comes last; before the first claim, at a random position.
        """
        # Otherwise processes that claim once and close would all take jobs of the host with the oldest jobs.
        self._lines[host] += 1
        if host not in self._turns:
            self._turns[host] = next(self._turn) if self._begun else random.random()  # noqa: S311 - no secret
        return self._turns[host]

    def _leave(self, host: str) -> None:
        self._lines[host] -= 1
        if not self._lines[host]:
            del self._lines[host], self._turns[host]

    def _counts(self, place: JobPath) -> bool:
        return self._pending.get(place.number) is place and place.number not in self._taken


def _put_back(level: _Level, passed: list[_Turn]) -> None:
    for turn in passed:
        heapq.heappush(level.ring, turn)


def _ascending(numbers: list[list[int]]) -> Iterator[int]:
    """Yield the numbers of several sorted lists in order, each once."""
    return (number for number, _ in groupby(heapq.merge(*numbers)))
