"""Where a claim begins to look: behind the host that had the last turn, and behind what is no more.

Turns are remembered by each opening for itself and for each filter: what hosts share is fair over all openings if it is
in each. The first turn is anybody's, so that many who begin at once do not all ask for the same host.

While somebody holds an old snapshot (a long report, a forgotten transaction), PostgreSQL cannot clear away the rows
that claims delete, and a claim from the beginning steps over all of them: the longer, the slower. So when claims have
been slow, the ones after them look only where jobs were found, behind the last that was claimed there. What came
elsewhere meanwhile (a retry, a better priority, another host) is seen by the next look from the beginning. That is due
when ten times as long has passed as the last one took, and at once when too little is found behind the marks. So the
order is bent for moments, and only in that trouble; nothing is ever passed over for good.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from typing import Any

from longshore.lease import Want
from longshore.media.postgres.columns import host_number

SLOW, SLOW_EACH = 0.005, 0.00001
"""Looking that takes longer than this (seconds), and so much for each job, is slow. But the machine may be busy."""
FAR, FAR_EACH, FAR_STRAND = 200, 2, 15
"""Looking that reads more pages than this, and so many for each job and each strand, has stepped over dead rows."""
RESPITE = 10
"""A look from the beginning may take one part in so many of the time."""

MOST_FILTERS = 1000
"""Of so many filters the turns are remembered; who claims with more of them begins anywhere."""

_Filter = tuple[str | None, frozenset[str] | None, frozenset[str] | None]
_Strand = tuple[int, int, int]
"""A line, a priority and the number of a host."""


class ClaimStart:
    """One claim's look: from where, and what came of it."""

    def __init__(self, marks: ClaimMarks, wanted: _Filter, without_hosts: frozenset[str]) -> None:
        self._all = marks
        self._filter = wanted
        self._by_lane = wanted[2] is not None
        closed = {host_number(host) for host in without_hosts}
        held = [(*strand, job) for strand, job in marks.of(wanted, time.monotonic()).items() if strand[2] not in closed]
        self.suspicious = marks.suspects(wanted)
        """Whether the look before was slow: then the pages read by this one are counted, which has its price."""
        self.behind = marks.turn_of(wanted)
        """The number of the host behind which the turns begin."""
        self.marked = bool(held)
        self.marks: list[list[int] | None] = [list(column) for column in zip(*held, strict=True)] or [None] * 4
        """Lines, priorities, hosts and jobs."""

    def seen(self, rows: Sequence[Any], wanted: int) -> None:
        """Note what was claimed, and what it cost to find."""
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
    """The last job claimed of each strand, for each filter that claims were slow with; and the turns, for each."""

    def __init__(self) -> None:
        self._held: dict[_Filter, dict[_Strand, int]] = {}
        self._until: dict[_Filter, float] = {}
        self._slow: set[_Filter] = set()
        self._turns: dict[_Filter, int] = {}

    def look(self, want: Want) -> ClaimStart:
        """Begin a look for what is wanted."""
        return ClaimStart(self, (want.run, want.kinds, want.partitions), want.without_hosts)

    def turn_of(self, wanted: _Filter) -> int:
        """The host that had the last turn, or any."""
        found = self._turns.get(wanted)
        return random.randrange(-(2**63), 2**63) if found is None else found  # noqa: S311 - spreads a fleet

    def put_turn(self, wanted: _Filter, host: int) -> None:
        if len(self._turns) >= MOST_FILTERS:
            self._turns.clear()
        self._turns[wanted] = host

    def of(self, wanted: _Filter, now: float) -> dict[_Strand, int]:
        """The marks to begin behind; none where it is time to look from the beginning."""
        if now >= self._until.get(wanted, 0.0):
            self.drop(wanted)
        return self._held.get(wanted, {})

    def suspects(self, wanted: _Filter) -> bool:
        """Whether the last look from the beginning was slow."""
        return wanted in self._slow

    def slow_again(self, wanted: _Filter, *, slow: bool) -> bool:
        """Whether this look from the beginning was slow, and the one before it too: once may be chance."""
        before = wanted in self._slow
        (self._slow.add if slow else self._slow.discard)(wanted)
        return slow and before

    def put(self, wanted: _Filter, found: dict[_Strand, int], took: float | None) -> None:
        """Move the marks behind what was found; after a look from the beginning, also say how long they hold."""
        if took is not None:
            self._held[wanted] = {}
            self._until[wanted] = time.monotonic() + took * RESPITE
        self._held.setdefault(wanted, {}).update(found)

    def drop(self, wanted: _Filter) -> None:
        """Forget the marks: the next look is from the beginning."""
        self._held.pop(wanted, None)
        self._until.pop(wanted, None)
