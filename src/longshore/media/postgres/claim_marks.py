"""Where a claim's search begins: after the host that had the last turn, and after dead rows.

Each open queue remembers the turns for itself, per filter: if turns are fair in each open queue, they are fair overall.
The first turn begins at a random host, so that many workers that start at once do not all ask for the same host.

While another transaction holds an old snapshot (a long report, a forgotten transaction), PostgreSQL cannot vacuum the
rows that claims delete, and a search from the beginning steps over all of them: it gets slower and slower. So after
slow searches, the next ones search only the strands where jobs were found, each from a mark: the job after the last one
claimed there. Jobs that appeared elsewhere meanwhile (a retry, a more urgent priority, another host) are found by the
next search from the beginning. That is due after ten times the duration of the last one, and at once if a search from
the marks finds too few jobs. So the order is inexact for moments, and only in this situation; no job is skipped for
good.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from longshore.lease import Want
from longshore.media.postgres.columns import host_number

SLOW, SLOW_EACH = 0.005, 0.00001
"""A search is slow if it takes more than `SLOW` seconds plus `SLOW_EACH` per job. The machine may just be busy."""
FAR, FAR_EACH, FAR_STRAND = 200, 2, 15
"""A search that reads more than `FAR` pages, plus these per job and per strand, has stepped over dead rows."""
RESPITE = 10
"""Searches from the beginning may use at most one part in `RESPITE` of the time."""

MOST_FILTERS = 1000
"""The number of filters whose turns are remembered; with more filters, turns begin at a random host again."""

_Filter = tuple[str | None, frozenset[str] | None, frozenset[str] | None]
_Strand = tuple[int, int, int]
"""A line (a family or a lane), a priority and the number of a host."""


class ClaimStart:
    """The starting point of one claim's search, and the record of its result."""

    def __init__(self, marks: ClaimMarks, wanted: _Filter, without_hosts: frozenset[str]) -> None:
        self._all = marks
        self._filter = wanted
        self._by_lane = wanted[2] is not None
        excluded = {host_number(host) for host in without_hosts}
        known = marks.of(wanted, time.monotonic())
        places = [(*strand, job) for strand, job in known.items() if strand[2] not in excluded]
        self.suspicious = marks.suspects(wanted)
        """Whether the search before was slow: then this one counts the pages it reads, which costs time."""
        self.behind = marks.turn_of(wanted)
        """The number of the host after which the turns begin."""
        self.marked = bool(places)
        self.marks: list[list[int] | None] = [list(column) for column in zip(*places, strict=True)] or [None] * 4
        """The marks as columns: lines, priorities, hosts and jobs."""

    def record(self, rows: Sequence[Any], wanted: int) -> None:
        """Record the claimed jobs and the cost of the search."""
        if rows:
            self._all.put_turn(self._filter, rows[0]["turn"])
        if self.marked and len(rows) < wanted:
            self._all.drop(self._filter)
            return
        if not rows:
            return
        took: float = rows[0]["looked"]
        slow = took > SLOW + SLOW_EACH * len(rows)
        if not self.marked and not slow:
            self._all.slow_again(self._filter, slow=False)
            return
        line = "lane" if self._by_lane else "family"
        found = {(row[line], row["priority"], host_number(row["host"])): row["job"] + 1 for row in rows}
        if not self.marked:
            most = FAR + FAR_EACH * len(rows) + FAR_STRAND * len(found)
            far = not self.suspicious or rows[0]["pages"] > most
            if not self._all.slow_again(self._filter, slow=far) or not self.suspicious:
                return
        self._all.put(self._filter, found, None if self.marked else took)


class ClaimMarks:
    """Per filter: the host turns and, after slow searches, the mark of each strand."""

    def __init__(self) -> None:
        self._marks: dict[_Filter, dict[_Strand, int]] = {}
        self._until: dict[_Filter, float] = {}
        self._slow: set[_Filter] = set()
        self._turns: dict[_Filter, int] = {}

    def start(self, want: Want) -> ClaimStart:
        """Return the starting point of a search for `want`."""
        return ClaimStart(self, (want.run, want.kinds, want.partitions), want.without_hosts)

    def turn_of(self, wanted: _Filter) -> int:
        """Return the host that had the last turn, or a random number if none is known."""
        found = self._turns.get(wanted)
        return random.randrange(-(2**63), 2**63) if found is None else found  # noqa: S311 - spreads a fleet

    def put_turn(self, wanted: _Filter, host: int) -> None:
        if len(self._turns) >= MOST_FILTERS:
            self._turns.clear()
        self._turns[wanted] = host

    def of(self, wanted: _Filter, now: float) -> dict[_Strand, int]:
        """Return the marks to search from; none if a search from the beginning is due."""
        if now >= self._until.get(wanted, 0.0):
            self.drop(wanted)
        return self._marks.get(wanted, {})

    def suspects(self, wanted: _Filter) -> bool:
        """Return whether the last search from the beginning was slow."""
        return wanted in self._slow

    def slow_again(self, wanted: _Filter, *, slow: bool) -> bool:
        """Record whether this search from the beginning was slow; return whether the one before it was slow, too.

        A single slow search may be chance.
        """
        before = wanted in self._slow
        (self._slow.add if slow else self._slow.discard)(wanted)
        return slow and before

    def put(self, wanted: _Filter, found: dict[_Strand, int], took: float | None) -> None:
        """Move the marks after the found jobs. `took`, the seconds of a search from the beginning, sets the expiry."""
        if took is not None:
            self._marks[wanted] = {}
            self._until[wanted] = time.monotonic() + took * RESPITE
        self._marks.setdefault(wanted, {}).update(found)

    def drop(self, wanted: _Filter) -> None:
        """Forget the marks: the next search starts from the beginning."""
        self._marks.pop(wanted, None)
        self._until.pop(wanted, None)
