"""The pending jobs in the order in which they are to be claimed, lane by lane.

What has gone is dropped only when it comes to the top, so taking a job away costs nothing. Numbers and lanes are given
anew after a refused push, so an entry is not known by them: it counts while the very place it was made for is pending.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TypeAlias

from longshore.media.git.record import Place

_Entry: TypeAlias = tuple[int, int, int, Place]
"""A priority or an instant, the job's number, and the entry's own, so that no two places are ever compared."""


class Backlog:
    """An order over `pending`, which its owner keeps."""

    def __init__(self, pending: Mapping[int, Place]) -> None:
        self._pending = pending
        self._ready: defaultdict[int, list[_Entry]] = defaultdict(list)
        self._delayed: list[_Entry] = []
        self._serial = count()

    def add(self, place: Place) -> None:
        """A job has become pending."""
        if place.due is None:
            self._make_ready(place)
        else:
            heapq.heappush(self._delayed, (place.due, place.number, next(self._serial), place))

    def pick(self, lanes: Sequence[int], now: float) -> Iterator[Place]:
        """The jobs of these lanes that are due, in their order. Each must be moved before the next is asked for."""
        self._promote(now)
        tops = [top for lane in lanes if (top := self._top(lane)) is not None]
        heapq.heapify(tops)
        while tops:
            *_, place = heapq.heappop(tops)
            yield place
            if (top := self._top(place.lane)) is not None:
                heapq.heappush(tops, top)

    def has_work(self, lanes: Sequence[int], now: float) -> bool:
        """Whether `pick` would find something."""
        self._promote(now)
        return any(self._top(lane) is not None for lane in lanes)

    def next_due(self) -> float | None:
        """The next instant at which a delayed job is due."""
        self._drop_stale(self._delayed)
        return self._delayed[0][0] / 1000 if self._delayed else None

    def _promote(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now * 1000:
            *_, place = heapq.heappop(self._delayed)
            if self._counts(place):
                self._make_ready(place)

    def _make_ready(self, place: Place) -> None:
        heapq.heappush(self._ready[place.lane], (place.priority, place.number, next(self._serial), place))

    def _top(self, lane: int) -> _Entry | None:
        """The first entry of a lane that still counts."""
        heap = self._ready.get(lane)
        if heap is not None:
            self._drop_stale(heap)
            if heap:
                return heap[0]
            del self._ready[lane]
        return None

    def _drop_stale(self, heap: list[_Entry]) -> None:
        while heap and not self._counts(heap[0][-1]):
            heapq.heappop(heap)

    def _counts(self, place: Place) -> bool:
        return self._pending.get(place.number) is place
