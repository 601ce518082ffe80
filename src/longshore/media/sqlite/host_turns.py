"""Choose the jobs of a claim: the most urgent first; within a priority, hosts take turns; within a host, the oldest.

Within a lane, the index `job_claim` orders ready jobs by priority, host and age, so that a search steps from one host
to the next, however many jobs each host has. A lane row also stores its head (a lower bound of its first ready job)
and its host, if all its ready jobs have the same. Single-host lanes are found by host and read in the order of their
heads, and only while an unread lane could hold a job older than those already read: the search skips neither over a
million jobs nor over thousands of such lanes. Lanes of several hosts are few; the search opens each of them.

After a claim or a cancel, a head may be too low. A search that opens such a lane learns the true head, and the claim
writes it.
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
from longshore.media.sqlite.paged_rows import LARGE, steps
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
    """The host that had the last turn, for each kind of claim. Kept in memory only: turns may begin at any host."""

    def __init__(self) -> None:
        self._last: dict[Hashable, int] = {}

    def last(self, which: Hashable) -> int:
        """Return the host that had the last turn, or a number below all hosts."""
        return self._last.get(which, _BEFORE_ALL)

    def end(self, which: Hashable, host: int) -> None:
        """Record the host that had the last turn."""
        self._last.pop(which, None)
        self._last[which] = host
        if len(self._last) > _REMEMBERED:
            del self._last[next(iter(self._last))]


class ClaimableJobs:
    """The result of a search: jobs, and the true heads of lanes whose stored head is too low."""

    def __init__(self) -> None:
        self.jobs: list[Place] = []
        self.heads: dict[int, tuple[int, int]] = {}


class Search:
    """The jobs that a claim takes, found without writing anything."""

    def __init__(self, want: Want, turns: HostTurns) -> None:
        """Prepare the search; create it before the write lock is taken, and run it under the lock."""
        self._filters = Filters(want)
        self._excluded_hosts = frozenset(map(host_number, want.without_hosts))
        self._turns = turns
        self._which = (want.run, want.kinds, want.partitions)

    def run(self, db: sqlite3.Connection, limit: int) -> ClaimableJobs:
        """Return up to `limit` ready jobs, the most urgent first."""
        found = ClaimableJobs()
        lanes = self._filters.lanes(db)
        later: defaultdict[int, list[LaneRow]] = defaultdict(list)
        priority = lanes.next_priority(-BIGGEST - 1)
        while priority is not None and len(found.jobs) < limit:
            level = _Level(db, priority, lanes, found)
            level.look_into(later.pop(priority, []))
            found.jobs += self._in_turn(level, limit - len(found.jobs))
            if len(found.jobs) < limit:
                for next_priority, lane in level.next_levels():
                    later[next_priority].append(lane)
                following = lanes.next_priority(priority)
                priority = min(later if following is None else (*later, following), default=None)
        return found

    def _in_turn(self, level: _Level, limit: int) -> list[Place]:
        """Take one job of each host; if jobs are still missing then, take equal further shares of the same hosts."""
        which = (*self._which, level.priority)
        taken: list[_HostQueue] = []
        for host, places in level.hosts(self._turns.last(which), limit):
            if host in self._excluded_hosts:
                continue
            queue = _HostQueue(level, host, places)
            if queue.begin(limit // (len(taken) + 1)):
                taken.append(queue)
                if len(taken) == limit:
                    break
        last, left, unfinished = taken[-1] if taken else None, limit - len(taken), taken
        while left and unfinished:
            share, more = max(1, left // len(unfinished)), []
            for queue in unfinished:
                number = queue.take(min(share, left))
                left -= number
                last = queue if number else last
                if number == share:
                    more.append(queue)
            unfinished = more
        if last is not None:
            self._turns.end(which, last.host)
        if len(taken) == 1:
            return taken[0].taken
        return [job for each in zip_longest(*(queue.taken for queue in taken)) for job in each if job is not None]


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
        """Open the lanes that may hold several hosts, and `lanes`, which are known to have jobs of this priority."""
        self._opened += lanes
        self._mixed += lanes
        for lane in self._lanes.mixed(self.priority):
            self._opened.append(lane)
            first = self._first(lane, self.priority)
            if first is not None and first[0] == self.priority:
                self._mixed.append(lane)
            elif first is not None:
                # The index orders by host first, so the first job is not the oldest: no bound of its number is known.
                self._heads[lane.id] = (first[0], 0)

    def hosts(self, last: int, expected: int) -> Iterator[tuple[int, list[Place | None]]]:
        """Yield each host once, with its oldest job in each lane, beginning after the host that had the last turn.

        None stands for the lanes that have only this host. `expected` is the number of hosts that will be used.
        """
        part = expected // len(self._mixed) + 1 if self._mixed else 0
        for after, until in ((last, LAST), (_BEFORE_ALL, last)):
            sources = [self._hosts_in(lane, after, until, part) for lane in self._mixed]
            single = ((host, None) for host in self._lanes.hosts(self.priority, after, until))
            for host, places in groupby(merge(single, *sources, key=itemgetter(0)), key=itemgetter(0)):
                yield host, [place for _, place in places]

    def next_levels(self) -> Iterator[tuple[int, LaneRow]]:
        """Yield each opened lane that has less urgent jobs, with the next priority it has jobs of."""
        for lane in self._opened:
            if (first := self._first(lane, self.priority + 1)) is not None:
                yield first[0], lane

    def lanes_of(self, host: int) -> Iterator[LaneRow]:
        """Return the lanes that have only this host, ordered by their heads."""
        return self._lanes.of_host(self.priority, host)

    def others_of(self, host: int, lane: LaneRow, expected: int) -> Iterator[int]:
        """Yield all but the oldest job of a host in a lane of several hosts, by age."""
        return self._jobs(lane, (host, host), expected, 1)

    def jobs_in(self, lane: LaneRow, expected: int) -> Iterator[int]:
        """Return the jobs of a lane that is recorded as having one host, by age.

        Jobs of any host are included: an older process, started before lanes had a host, may have added others.
        """
        self._opened.append(lane)
        numbers = self._jobs(lane, (0, LAST), expected, 0)
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

    def _hosts_in(self, lane: LaneRow, after: int, until: int, size: int) -> Iterator[tuple[int, Place | None]]:
        values = {"lane": lane.id, "priority": self.priority}
        near = self._db.execute(_SQL["near"], {**values, "after": after, "until": until, "size": size}).fetchall()
        for host, oldest in near:
            if host != after:
                after = host
                yield host, (lane, oldest)
        if len(near) < size:
            return
        for host, oldest in steps(self._db, _SQL["hosts"], values, after, until):
            yield host, (lane, oldest)

    def _jobs(self, lane: LaneRow, hosts: tuple[int, int], expected: int, read: int) -> Iterator[int]:
        """Yield the jobs of the hosts between these two, without the first `read` of them."""
        values = {"lane": lane.id, "priority": self.priority, "first_host": hosts[0], "last_host": hosts[1]}
        size = max(expected, 1)
        while True:
            (numbers,) = self._db.execute(_SQL["oldest"], values | {"size": size, "read": read}).fetchone()
            page = _decode(numbers)
            yield from page
            if len(page) < size:
                return
            read, size = read + size, LARGE


class _HostQueue:
    """The ready jobs of one host and priority in the wanted lanes, oldest first."""

    __slots__ = ("_jobs", "_level", "_places", "host", "taken")

    def __init__(self, level: _Level, host: int, places: list[Place | None]) -> None:
        """Take the `places` that `_Level.hosts` yielded with this host."""
        self.host = host
        self.taken: list[Place] = []
        self._level = level
        self._places = places
        self._jobs: Iterator[Place] | None = None

    def begin(self, expected: int) -> bool:
        """Take the first job; return False if there is none. `expected` estimates how many jobs will be taken."""
        if len(self._places) == 1 and self._places[0] is not None:
            # In a broad crawl, most hosts are asked for no more than this.
            self.taken.append(self._places[0])
            return True
        self._jobs = self._by_age(expected)
        return bool(self.take(1))

    def take(self, number: int) -> int:
        """Take up to `number` further jobs; return how many there were."""
        if self._jobs is None:
            self._jobs = islice(self._by_age(number), 1, None)
        further = list(islice(self._jobs, number))
        self.taken += further
        return len(further)

    def _by_age(self, expected: int) -> Iterator[Place]:
        level = self._level
        unread: Iterator[LaneRow] = iter(())
        heap: list[tuple[int, LaneRow, Iterator[int]]] = []
        for place in self._places:
            if place is None:
                unread = level.lanes_of(self.host)
            else:
                lane, oldest = place
                heappush(heap, (oldest, lane, level.others_of(self.host, lane, expected)))
        next_lane = next(unread, None)
        while True:
            # "Or equal": a head that is too low may equal the number of another lane's job, and proves nothing then.
            while next_lane is not None and (not heap or next_lane.head_job <= heap[0][0]):
                rest = level.jobs_in(next_lane, expected)
                if (number := next(rest, None)) is not None:
                    heappush(heap, (number, next_lane, rest))
                next_lane = next(unread, None)
            if not heap:
                return
            number, lane, rest = heappop(heap)
            yield lane, number
            bounds = [bound[0] for bound in heap[:1]] + ([] if next_lane is None else [next_lane.head_job])
            bound = min(bounds, default=_AFTER_ALL)
            for number in rest:
                if number >= bound:
                    heappush(heap, (number, lane, rest))
                    break
                yield lane, number
