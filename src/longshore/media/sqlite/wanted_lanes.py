"""The lanes that a claim may look into, as far as their rows tell: by priority, and by whether they have one host only.

Usually they are few, and one statement reads them all. Where they are many, only those that matter are read.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import msgspec

from longshore.lease import Want
from longshore.media.sqlite.pages import pages, steps
from longshore.media.sqlite.statements import json_list, statements

FEW = 20
"""Lanes that are read at once. Stepping through any number of them costs about as much."""

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
    """With the priority, a lower bound of its first ready job."""
    host: int | None
    """The host of all its ready jobs, or None where there may be several."""


class WantedLanes(Protocol):
    """Lanes with something ready. What is said of one priority is said of the lanes whose heads have it."""

    def next_priority(self, after: int) -> int | None:
        """The most urgent priority behind this one."""

    def mixed(self, priority: int) -> list[LaneRow]:
        """Lanes that may hold several hosts."""

    def hosts(self, priority: int, after: int, until: int) -> Iterator[int]:
        """The hosts of lanes that have one only, in order: those behind the one, up to and with the other."""

    def of_host(self, priority: int, host: int) -> Iterator[LaneRow]:
        """The lanes that have this host only, by their heads."""


class Filters:
    """What a worker asked for, as parameters."""

    def __init__(self, want: Want) -> None:
        self._values = {"run": want.run, "kinds": json_list(want.kinds), "partitions": json_list(want.partitions)}

    def lanes(self, db: sqlite3.Connection) -> WantedLanes:
        """The lanes that match."""
        rows = db.execute(_SQL["lanes"], self._values | {"size": FEW + 1}).fetchall()
        return _FewLanes([LaneRow(*row) for row in rows]) if len(rows) <= FEW else _ManyLanes(db, self._values)


class _FewLanes:
    def __init__(self, lanes: list[LaneRow]) -> None:
        """They come by the priority, host and number of their heads."""
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
