"""Lanes: one row for each run, kind and partition that counts its jobs by state, so that nobody ever counts jobs."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping

from longshore.job import State
from longshore.media.sqlite.statements import statements
from longshore.queue import Count

READY, DELAYED, CLAIMED, COMPLETED, FAILED, CANCELLED = range(6)
"""The states as they are stored. A delay has a state of its own here, so that a claim never steps over waiting jobs."""

STATES = (State.PENDING, State.PENDING, State.CLAIMED, State.COMPLETED, State.FAILED, State.CANCELLED)
"""What each stored state is to everyone else."""

_SQL = statements("lanes")


class Moves:
    """The moves of one transaction, added up, so that each lane is written once for the whole batch."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[int, int]] = Counter()
        self._heads: dict[int, tuple[int, int]] = {}
        self._hosts: dict[int, int | None] = {}

    def add(self, lane: int, state: int, number: int = 1) -> None:
        """Jobs appear in a state, or with a negative number leave it."""
        self._changes[lane, state] += number

    def move(self, lane: int, before: int, after: int, number: int = 1) -> None:
        """Jobs go from one state to another."""
        self._changes[lane, before] -= number
        self._changes[lane, after] += number

    def ready(self, lane: int, priority: int, job: int, host: int | None) -> None:
        """No job that becomes ready in this lane goes before this place; all are of this host, or of several (None)."""
        head = self._heads.get(lane)
        if head is None or (priority, job) < head:
            self._heads[lane] = (priority, job)
        self._hosts[lane] = host if self._hosts.get(lane, host) == host else None

    def write(self, db: sqlite3.Connection) -> None:
        """Write all of it. Heads and hosts come first: they must know whether the lane was empty before."""
        firsts = [
            {"lane": lane, "priority": priority, "job": job, "host": self._hosts[lane]}
            for lane, (priority, job) in self._heads.items()
        ]
        if firsts:
            db.executemany(_SQL["mix_hosts"], firsts)
            db.executemany(_SQL["lower_head"], firsts)
        db.executemany(
            _SQL["count"],
            [
                (*(self._changes[lane, state] for state in range(len(STATES))), lane)
                for lane in {lane for lane, _ in self._changes}
            ],
        )


def sole(least: int, greatest: int) -> int | None:
    """The host of jobs whose hosts lie between these, if it is one."""
    return least if least == greatest else None


def set_heads(db: sqlite3.Connection, heads: Mapping[int, tuple[int, int]]) -> None:
    """Note where the first ready job of each lane is, at the earliest."""
    db.executemany(_SQL["set_head"], [(*head, lane) for lane, head in heads.items()])


def stats(db: sqlite3.Connection, run: str | None) -> list[Count]:
    """The counters, ordered by run, kind and partition."""
    return [
        Count(
            run=run,
            kind=kind,
            partition=partition,
            pending=pending,
            claimed=claimed,
            completed=completed,
            failed=failed,
            cancelled=cancelled,
        )
        for run, kind, partition, pending, claimed, completed, failed, cancelled in db.execute(
            _SQL["stats"], {"run": run}
        )
    ]


def remove_empty(db: sqlite3.Connection) -> None:
    """Drop lanes that hold no job at all."""
    db.execute(_SQL["remove_empty"])
