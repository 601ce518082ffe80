"""Where a claim begins to look, while the beginning is full of what is no more.

While somebody holds an old snapshot (a long report, a forgotten transaction), PostgreSQL cannot clear away the rows
that claims delete, and a claim from the beginning steps over all of them: the longer, the slower. So when claims have
been slow, the ones after them begin behind the last job that was claimed, line by line. What was put in front of that
mark meanwhile (a retry, a better priority) is seen by the next look from the beginning. That is due when ten times as
long has passed as the last one took, and at once when too little is found behind the marks. So the order is bent for
moments, and only in that trouble; nothing is ever passed over for good.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from longshore.lease import Want

SLOW = 0.005
"""Picking that takes longer than this (seconds), and than `SLOW_EACH` for each job, has stepped over dead rows."""
SLOW_EACH = 0.00005
RESPITE = 10
"""A look from the beginning may take one part in so many of the time."""

_Filter = tuple[str | None, frozenset[str] | None, frozenset[str] | None]


class Look:
    """One claim's look: from where, and what came of it."""

    def __init__(self, marks: Marks, wanted: _Filter) -> None:
        self._marks = marks
        self._filter = wanted
        self._by_lane = wanted[2] is not None
        self._began = time.monotonic()
        held = marks.of(wanted, self._began)
        self.marked = bool(held)
        self.lines = list(held) if held else None
        self.after_priorities = [mark[0] for mark in held.values()] if held else None
        self.after_jobs = [mark[1] for mark in held.values()] if held else None

    def seen(self, rows: Sequence[Any], wanted: int) -> None:
        """Note what was claimed, and what it cost to find."""
        if self.marked and len(rows) < wanted:
            self._marks.drop(self._filter)
            return
        if not rows:
            return
        took: float = rows[0]["looked"]
        if not self.marked and not self._marks.slow_again(self._filter, slow=took > SLOW + SLOW_EACH * len(rows)):
            return
        found = {row["lane" if self._by_lane else "family"]: (row["priority"], row["job"]) for row in rows}
        self._marks.put(self._filter, found, None if self.marked else took)


class Marks:
    """The last job claimed of each line, for each filter that claims were slow with."""

    def __init__(self) -> None:
        self._held: dict[_Filter, dict[int, tuple[int, int]]] = {}
        self._until: dict[_Filter, float] = {}
        self._slow: set[_Filter] = set()

    def look(self, want: Want) -> Look:
        """Begin a look for what is wanted."""
        return Look(self, (want.run, want.kinds, want.partitions))

    def of(self, wanted: _Filter, now: float) -> dict[int, tuple[int, int]]:
        """The marks to begin behind; none where it is time to look from the beginning."""
        if now >= self._until.get(wanted, 0.0):
            self.drop(wanted)
        return self._held.get(wanted, {})

    def slow_again(self, wanted: _Filter, *, slow: bool) -> bool:
        """Whether this look from the beginning was slow, and the one before it too: once may be a busy machine."""
        before = wanted in self._slow
        (self._slow.add if slow else self._slow.discard)(wanted)
        return slow and before

    def put(self, wanted: _Filter, found: dict[int, tuple[int, int]], took: float | None) -> None:
        """Move the marks behind what was found; after a look from the beginning, also say how long they hold."""
        if took is not None:
            self._held[wanted] = {}
            self._until[wanted] = time.monotonic() + took * RESPITE
        self._held.setdefault(wanted, {}).update(found)

    def drop(self, wanted: _Filter) -> None:
        """Forget the marks: the next look is from the beginning."""
        self._held.pop(wanted, None)
        self._until.pop(wanted, None)
