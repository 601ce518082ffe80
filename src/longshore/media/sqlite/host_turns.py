"""Which jobs a claim takes: the most urgent ones; among equals, hosts take turns; of one host, the oldest.

Within a lane, ready jobs lie by priority, host and age (index `job_claim`), so that whoever looks for hosts steps from
one to the next, however many jobs each has. A lane also knows a lower bound of its first job, its head, and whether all
its ready jobs are of one host. Lanes of one host are found by it and read in the order of their heads, and only while a
lane not read yet could hold something older than what is at hand: neither a million jobs nor thousands of such lanes
are stepped over. Lanes of several hosts are few, and looked into one by one.

A head may be too low, after a claim or a cancel; who looks into a lane in vain knows better.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Hashable, Iterator
from heapq import heappop, heappush, merge
from itertools import chain, groupby, islice, zip_longest
from operator import itemgetter

import msgspec

from longshore.lease import Want
from longshore.media.sqlite.hosts import LAST, host_number
from longshore.media.sqlite.pages import LARGE, steps
from longshore.media.sqlite.statements import statements
from longshore.media.sqlite.wanted_lanes import Filters, LaneRow, WantedLanes
from longshore.stored import BIGGEST

Place = tuple[LaneRow, int]
"""A job: its lane and its number."""

_SQL = statements("turns")
_decode = msgspec.json.Decoder(list[int]).decode
_BEFORE_ALL, _AFTER_ALL = -1, 2**63
_REMEMBERED = 1000


class HostTurns:
    """Who had the last turn, for each kind of claim: an opening's own memory, for where turns begin is open."""

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}

    def last(self, which: Hashable) -> int:
        """The host whose turn was the last, or a number below all hosts."""
        return self._last.get(which, _BEFORE_ALL)

    def end(self, which: Hashable, host: int) -> None:
        """Note whose turn was the last."""
        self._last.pop(which, None)
        self._last[which] = host
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]


class ClaimableJobs:
    """What a search found: jobs, and the lanes whose heads are higher than they are said to be."""

    def __init__(self) -> None:
        self.jobs: list[Place] = []
        self.heads: dict[int, tuple[int, int]] = {}


class Search:
    """The jobs that a claim takes, found without writing anything."""

    def __init__(self, want: Want, turns: HostTurns) -> None:
        """Made before the lock is taken; run it then."""
        self._filters = Filters(want)
        self._unwanted = frozenset(map(host_number, want.without_hosts))
        self._turns = turns
        self._which = (want.run, want.kinds, want.partitions)

    def run(self, db: sqlite3.Connection, limit: int) -> ClaimableJobs:
        """Up to so many ready jobs, the most urgent first."""
        found = ClaimableJobs()
        lanes = self._filters.lanes(db)
        later: defaultdict[int, list[LaneRow]] = defaultdict(list)
        priority = lanes.next_priority(-BIGGEST - 1)
        while priority is not None and len(found.jobs) < limit:
            level = _Level(db, priority, lanes, found)
            level.look_into(later.pop(priority, []))
            found.jobs += self._in_turn(level, limit - len(found.jobs))
            if len(found.jobs) < limit:
                for next_priority, lane in level.go_on():
                    later[next_priority].append(lane)
                following = lanes.next_priority(priority)
                priority = min(later if following is None else (*later, following), default=None)
        return found

    def _in_turn(self, level: _Level, limit: int) -> list[Place]:
        """One of each host; then, if those are all hosts there are, as much again of each as there is room for."""
        which = (*self._which, level.priority)
        taken: list[_Line] = []
        for host, places in level.hosts(self._turns.last(which), limit):
            if host in self._unwanted:
                continue
            line = _Line(level, host, places)
            if line.begin(limit // (len(taken) + 1)):
                taken.append(line)
                if len(taken) == limit:
                    break
        last, left, others = taken[-1] if taken else None, limit - len(taken), taken
        while left and others:
            share, more = max(1, left // len(others)), []
            for line in others:
                again = line.take(min(share, left))
                left -= again
                last = line if again else last
                if again == share:
                    more.append(line)
            others = more
        if last is not None:
            self._turns.end(which, last.host)
        if len(taken) == 1:
            return taken[0].taken
        return [job for each in zip_longest(*(line.taken for line in taken)) for job in each if job is not None]


class _Level:
    """All wanted lanes at one priority."""

    def __init__(self, db: sqlite3.Connection, priority: int, lanes: WantedLanes, found: ClaimableJobs) -> None:
        self.priority = priority
        self._db = db
        self._lanes = lanes
        self._heads = found.heads
        self._mixed: list[LaneRow] = []
        self._opened: list[LaneRow] = []

    def look_into(self, lanes: list[LaneRow]) -> None:
        """Open the lanes that may hold several hosts, and these, which are known to go on here."""
        self._opened += lanes
        self._mixed += lanes
        for lane in self._lanes.mixed(self.priority):
            self._opened.append(lane)
            first = self._first(lane, self.priority)
            if first is not None and first[0] == self.priority:
                self._mixed.append(lane)
            elif first is not None:
                # By host, so the first is not the oldest: of its number nothing is known.
                self._heads[lane.id] = (first[0], 0)

    def hosts(self, last: int, room: int) -> Iterator[tuple[int, list[Place | None]]]:
        """Each host with its oldest job in each lane, beginning behind the one that had the last turn, and once round.

        None stands for the lanes that have this host only. `room` is for how many hosts there is room.
        """
        part = room // len(self._mixed) + 1 if self._mixed else 0
        for after, until in ((last, LAST), (_BEFORE_ALL, last)):
            sources = [self._hosts_in(lane, after, until, part) for lane in self._mixed]
            alone = ((host, None) for host in self._lanes.hosts(self.priority, after, until))
            for host, places in groupby(merge(alone, *sources, key=itemgetter(0)), key=itemgetter(0)):
                yield host, [place for _, place in places]

    def go_on(self) -> Iterator[tuple[int, LaneRow]]:
        """The lanes that were opened, each with the next priority that it has something of."""
        for lane in self._opened:
            if (first := self._first(lane, self.priority + 1)) is not None:
                yield first[0], lane

    def lanes_of(self, host: int) -> Iterator[LaneRow]:
        """The lanes that have this host only, by their heads."""
        return self._lanes.of_host(self.priority, host)

    def others_of(self, host: int, lane: LaneRow, room: int) -> Iterator[int]:
        """The jobs of a host in a lane of several, by age, but for the oldest."""
        return self._jobs(lane, (host, host), room, 1)

    def jobs_in(self, lane: LaneRow, room: int) -> Iterator[int]:
        """The jobs of a lane that is said to have one host only, by age.

        Whatever their host is: a process that was started before lanes knew of hosts may have put others there.
        """
        self._opened.append(lane)
        numbers = self._jobs(lane, (0, LAST), room, 0)
        first = next(numbers, None)
        if first is None:
            if (head := self._first(lane, self.priority)) is not None:
                self._heads[lane.id] = head
            return numbers
        if first > lane.head_job:
            self._heads[lane.id] = (self.priority, first)
        return chain((first,), numbers)

    def _first(self, lane: LaneRow, priority: int) -> tuple[int, int] | None:
        found: tuple[int, int] | None = self._db.execute(
            _SQL["first"], {"lane": lane.id, "priority": priority}
        ).fetchone()
        return found

    def _hosts_in(self, lane: LaneRow, after: int, until: int, room: int) -> Iterator[tuple[int, Place | None]]:
        values = {"lane": lane.id, "priority": self.priority}
        near = self._db.execute(_SQL["near"], {**values, "after": after, "until": until, "size": room}).fetchall()
        for host, oldest in near:
            if host != after:
                after = host
                yield host, (lane, oldest)
        if len(near) < room:
            return
        for host, oldest in steps(self._db, _SQL["hosts"], values, after, until):
            yield host, (lane, oldest)

    def _jobs(self, lane: LaneRow, hosts: tuple[int, int], room: int, read: int) -> Iterator[int]:
        """Those of the hosts between these, but for so many that were read before."""
        values = {"lane": lane.id, "priority": self.priority, "first_host": hosts[0], "last_host": hosts[1]}
        size = max(room, 1)
        while True:
            (numbers,) = self._db.execute(_SQL["oldest"], values | {"size": size, "read": read}).fetchone()
            page = _decode(numbers)
            yield from page
            if len(page) < size:
                return
            read, size = read + size, LARGE


class _Line:
    """The jobs of one host and priority that wait in wanted lanes, oldest first."""

    __slots__ = ("_jobs", "_level", "_places", "host", "taken")

    def __init__(self, level: _Level, host: int, places: list[Place | None]) -> None:
        """The places are those of `_Level.hosts`."""
        self.host = host
        self.taken: list[Place] = []
        self._level = level
        self._places = places
        self._jobs: Iterator[Place] | None = None

    def begin(self, room: int) -> bool:
        """Take the first; False if there is none. `room` is how many will be taken, as far as can be told."""
        if len(self._places) == 1 and self._places[0] is not None:
            # In a broad crawl this is all that is ever asked of most hosts.
            self.taken.append(self._places[0])
            return True
        self._jobs = self._by_age(room)
        return bool(self.take(1))

    def take(self, number: int) -> int:
        """Take the next ones, up to that number; says how many there were."""
        if self._jobs is None:
            self._jobs = islice(self._by_age(number), 1, None)
        again = list(islice(self._jobs, number))
        self.taken += again
        return len(again)

    def _by_age(self, room: int) -> Iterator[Place]:
        level = self._level
        unread: Iterator[LaneRow] = iter(())
        at_hand: list[tuple[int, LaneRow, Iterator[int]]] = []
        for place in self._places:
            if place is None:
                unread = level.lanes_of(self.host)
            else:
                lane, oldest = place
                heappush(at_hand, (oldest, lane, level.others_of(self.host, lane, room)))
        next_lane = next(unread, None)
        while True:
            # "Or equal": a bound that is too low may name the very place of another lane's job, and says nothing then.
            while next_lane is not None and (not at_hand or next_lane.head_job <= at_hand[0][0]):
                rest = level.jobs_in(next_lane, room)
                if (number := next(rest, None)) is not None:
                    heappush(at_hand, (number, next_lane, rest))
                next_lane = next(unread, None)
            if not at_hand:
                return
            number, lane, rest = heappop(at_hand)
            yield lane, number
            bounds = [bound[0] for bound in at_hand[:1]] + ([] if next_lane is None else [next_lane.head_job])
            bound = min(bounds, default=_AFTER_ALL)
            for number in rest:
                if number >= bound:
                    heappush(at_hand, (number, lane, rest))
                    break
                yield lane, number
