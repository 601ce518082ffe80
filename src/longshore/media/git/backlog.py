"""The pending jobs in the order in which they are to be claimed, lane by lane.

What has gone is dropped only when it comes to the top, so taking a job away costs nothing.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from longshore.media.git.record import Place


class Backlog:
    """An order over `pending`, which its owner keeps."""

    def __init__(self, pending: Mapping[int, Place]) -> None:
        self._pending = pending
        self._ready: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        self._delayed: list[tuple[int, int]] = []
        self._waiting: set[int] = set()
        """The jobs whose time has not come, as far as anyone has looked."""

    def add(self, place: Place) -> None:
        """A job has become pending."""
        if place.due is None:
            heapq.heappush(self._ready[place.lane], (place.priority, place.number))
        else:
            heapq.heappush(self._delayed, (place.due, place.number))
            self._waiting.add(place.number)

    def discard(self, place: Place) -> None:
        """A job is pending no more."""
        self._waiting.discard(place.number)

    def pick(self, lanes: Sequence[int], now: float) -> Iterator[Place]:
        """The jobs of these lanes that are due, in their order. What is taken from here must be moved elsewhere."""
        self._promote(now)
        tops = [(*top, lane) for lane in lanes if (top := self._top(lane)) is not None]
        heapq.heapify(tops)
        while tops:
            _, number, lane = heapq.heappop(tops)
            heapq.heappop(self._ready[lane])
            yield self._pending[number]
            if (top := self._top(lane)) is not None:
                heapq.heappush(tops, (*top, lane))

    def has_work(self, lanes: Sequence[int], now: float) -> bool:
        """Whether `pick` would find something."""
        self._promote(now)
        return any(self._top(lane) is not None for lane in lanes)

    def next_due(self) -> float | None:
        """The next instant at which a delayed job is due."""
        while self._delayed:
            due, number = self._delayed[0]
            if self._waits(due, number):
                return due / 1000
            heapq.heappop(self._delayed)
        return None

    def _promote(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now * 1000:
            due, number = heapq.heappop(self._delayed)
            if self._waits(due, number):
                self._waiting.remove(number)
                place = self._pending[number]
                heapq.heappush(self._ready[place.lane], (place.priority, number))

    def _waits(self, due: int, number: int) -> bool:
        place = self._pending.get(number)
        return place is not None and place.due == due and number in self._waiting

    def _top(self, lane: int) -> tuple[int, int] | None:
        """The first job of a lane that is still ready."""
        heap = self._ready.get(lane)
        while heap:
            if heap[0][1] in self._pending and heap[0][1] not in self._waiting:
                return heap[0]
            heapq.heappop(heap)
        self._ready.pop(lane, None)
        return None
