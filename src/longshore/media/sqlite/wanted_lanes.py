"""The lanes that match a claim, as their rows describe them: by priority, and by whether they have only one host.

Usually they are few, and one statement reads them all. If they are many, only those that the search needs are read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from longshore.lease import Want
from longshore.media.sqlite.paged_rows import pages, steps
from longshore.media.sqlite.statements import json_list, statements

FEW = 20
"""Maximum number of lanes that are read at once. The stepwise search costs about as much as reading this many."""

_SQL = statements("wanted")
_SQL = {name: text.replace("{wanted}", _SQL["wanted"]) for name, text in _SQL.items()}


class LaneRow(msgspec.Struct, frozen=True, array_like=True):
    """A row of `lane`."""

    id: int
    run: str
    kind: str
    partition: str
    head_priority: int
    head_job: int
    """Together with `head_priority`, a lower bound of the lane's first ready job."""
    host: int | None
    """The host of all its ready jobs; None if there may be several hosts."""


class WantedLanes(Protocol):
    """Lanes with ready jobs. A `priority` parameter selects the lanes whose heads have that priority."""

    def next_priority(self, after: int) -> int | None:
        """Return the most urgent priority that is less urgent than `after`."""

    def mixed(self, priority: int) -> list[LaneRow]:
        """Return the lanes that may hold several hosts."""

    def hosts(self, priority: int, after: int, until: int) -> Iterator[int]:
        """Return the hosts of single-host lanes, in order: greater than `after` and at most `until`."""

    def of_host(self, priority: int, host: int) -> Iterator[LaneRow]:
        """Return the lanes that have only this host, ordered by their heads."""


class Filters:
    """The filters of a `Want`, as SQL parameters."""

    def __init__(self, want: Want) -> None:
        self._values = {"run": want.run, "kinds": json_list(want.kinds), "partitions": json_list(want.partitions)}

    def lanes(self, db: sqlite3.Connection) -> WantedLanes:
        """Return the lanes that match."""
        rows = db.execute(_SQL["lanes"], self._values | {"size": FEW + 1}).fetchall()
        return _FewLanes([LaneRow(*row) for row in rows]) if len(rows) <= FEW else _ManyLanes(db, self._values)


class _FewLanes:
    def __init__(self, lanes: list[LaneRow]) -> None:
        """Take lanes that are ordered by the priority, host and number of their heads."""
        self._lanes = lanes

    def next_priority(self, after: int) -> int | None:
        return next((lane.head_priority for lane in self._lanes if lane.head_priority > after), None)

    def mixed(self, priority: int) -> list[LaneRow]:
        return [lane for lane in self._lanes if lane.head_priority == priority and lane.host is None]

    def hosts(self, priority: int, after: int, until: int) -> Iterator[int]:
        here = (lane.host for lane in self._lanes if lane.head_priority == priority and lane.host is not None)
        return iter(dict.fromkeys(host for host in here if after < host <= until))

    def of_host(self, priority: int, host: int) -> Iterator[LaneRow]:
        return (lane for lane in self._lanes if lane.head_priority == priority and lane.host == host)


class _ManyLanes:
    def __init__(self, db: sqlite3.Connection, filters: Mapping[str, Any]) -> None:
        self._db = db
        self._filters = filters

    def next_priority(self, after: int) -> int | None:
        row = self._db.execute(_SQL["next_priority"], {**self._filters, "priority": after}).fetchone()
        return None if row is None else int(row[0])

    def mixed(self, priority: int) -> list[LaneRow]:
        return [LaneRow(*row) for row in self._db.execute(_SQL["mixed"], {**self._filters, "priority": priority})]

    def hosts(self, priority: int, after: int, until: int) -> Iterator[int]:
        values = {**self._filters, "priority": priority}
        return (host for (host,) in steps(self._db, _SQL["hosts"], values, after, until))

    def of_host(self, priority: int, host: int) -> Iterator[LaneRow]:
        values = {**self._filters, "priority": priority, "host": host}
        return (LaneRow(*row) for row in pages(self._db, _SQL["of_host"], values))
