"""The one reader of a server. It looks at each topic that is watched, at most once a second, and wakes its viewers.

A hundred viewers of a topic cost the queue as much as one; without viewers the queue is not read at all. A slow
queue is read less often: reading takes at most one part in `_SHARE` of the time.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import structlog

from longshore.clock import Clock
from longshore.errors import LongshoreError, NotFoundError
from longshore.server.live.topics import Figures, Topic, TopicName
from longshore.system.first_of import first_of
from longshore.top.find_jobs import Detail
from longshore.url import mask_urls

EVERY, LONGEST = 1.0, 15.0
"""Seconds between two looks at a topic: on a queue that answers at once, and on a slow one."""
_SHARE = 10
_LINGER_SECONDS = 5.0
"""A topic is read for this long after a page of it was sent: a browser without scripts has no stream."""
_FRESH = 2.0
"""A page is made from a snapshot of at most this age (seconds)."""
_KEPT_SECONDS, _MOST_KEPT = 600.0, 200
"""A topic without viewers is kept for a time, so that its chart goes on when one comes back."""
log = structlog.get_logger()


class TopicSnapshot:
    """A topic at one moment."""

    def __init__(self, number: int, at: float, value: Figures | Detail, trouble: str = "") -> None:
        self.number = number
        """Rises with every look."""
        self.at = at
        """When it was read, in seconds since 1970."""
        self.value = value
        self.trouble = trouble
        """Why the value is not newer; empty if it is."""


class WatchedTopic:
    """One topic, its last snapshot and its viewers."""

    def __init__(self, topic: Topic, clock: Clock) -> None:
        self._topic = topic
        self._clock = clock
        self._looking = asyncio.Lock()
        self._looked_at = float("-inf")
        self._tried_at = float("-inf")
        self.used_at = clock.monotonic()
        self.viewers: set[asyncio.Event] = set()
        self.new = True
        """Whether it was not looked at since its first viewer came."""
        self.last: TopicSnapshot | None = None
        self.gone = ""
        """Why there is no such run or job any more; empty while there is one."""

    def expire(self) -> None:
        """Let the next page and the next look show what is in the queue now."""
        self._topic.expire()
        self._looked_at = self._tried_at = float("-inf")

    async def at_once(self) -> TopicSnapshot:
        """Return a snapshot that is fresh enough for a page. Raise the queue's errors."""
        async with self._looking:
            self.used_at = self._clock.monotonic()
            if self.last is None or self.used_at - self._looked_at > _FRESH:
                await self._look(quick=True)
            assert self.last is not None  # noqa: S101  a look sets it, or raises
            return self.last

    async def refresh(self) -> None:
        """Look, unless that was done less than a second ago, and wake the viewers. Trouble is told to them."""
        async with self._looking:
            if self._clock.monotonic() - self._tried_at < EVERY * 0.9:
                return
            try:
                await self._look(quick=False)
            except NotFoundError as error:
                self.gone = str(error)
            except LongshoreError as error:
                if self.last is not None:
                    told = mask_urls(str(error))
                    self.last = TopicSnapshot(self.last.number + 1, self.last.at, self.last.value, told)
        for viewer in self.viewers:
            viewer.set()

    async def _look(self, *, quick: bool) -> None:
        self._tried_at = self._clock.monotonic()
        value = await self._topic.look(quick=quick)
        self.gone = ""
        self._looked_at = self._clock.monotonic()
        number = 1 if self.last is None else self.last.number + 1
        self.last = TopicSnapshot(number, self._clock.now(), value)


class LiveReader:
    """All topics of a server."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._topics: dict[TopicName, WatchedTopic] = {}
        self._watched = asyncio.Event()
        self.life = secrets.token_hex(4)
        """Numbers of snapshots are compared only within one life of the server."""

    def topic(self, name: TopicName, make: Callable[[], Topic]) -> WatchedTopic:
        """Return the topic of this name, made on the first call."""
        found = self._topics.get(name)
        if found is None:
            self._forget()
            found = self._topics[name] = WatchedTopic(make(), self._clock)
        found.used_at = self._clock.monotonic()
        self._watched.set()
        return found

    def expire(self) -> None:
        """Let the next look at each topic read everything again: a person has just changed something."""
        for topic in self._topics.values():
            topic.expire()

    @contextmanager
    def watching(self, topic: WatchedTopic) -> Iterator[asyncio.Event]:
        """Within, the topic is read again and again; the event is set after each look."""
        woken = asyncio.Event()
        topic.viewers.add(woken)
        self._watched.set()
        try:
            yield woken
        finally:
            topic.viewers.discard(woken)
            topic.new = not topic.viewers
            topic.used_at = self._clock.monotonic()

    async def keep(self) -> None:
        """Read the topics that have viewers, until this is cancelled."""
        next_round = float("-inf")
        while True:
            self._watched.clear()
            watched = [topic for topic in self._topics.values() if self._is_watched(topic)]
            if not watched:
                await self._watched.wait()
                continue
            began = self._clock.monotonic()
            # A topic that had no viewer until now is looked at once; the others wait for their turn.
            await self._refresh(watched if began >= next_round else [topic for topic in watched if topic.new])
            ended = self._clock.monotonic()
            if began >= next_round:
                next_round = ended + max(EVERY, min(_SHARE * (ended - began), LONGEST))
            await first_of(self._clock.sleep(next_round - ended), self._watched.wait())

    def _is_watched(self, topic: WatchedTopic) -> bool:
        return bool(topic.viewers) or self._clock.monotonic() - topic.used_at < _LINGER_SECONDS

    async def _refresh(self, topics: list[WatchedTopic]) -> None:
        for topic in topics:
            topic.new = False
            try:
                await topic.refresh()
            except Exception:  # a defect of one topic must not stop the others
                log.exception("A live view could not be read")

    def _forget(self) -> None:
        idle = sorted(
            (name for name, topic in self._topics.items() if not topic.viewers),
            key=lambda name: self._topics[name].used_at,
        )
        now = self._clock.monotonic()
        for number, name in enumerate(idle):
            if now - self._topics[name].used_at > _KEPT_SECONDS or len(idle) - number >= _MOST_KEPT:
                del self._topics[name]
