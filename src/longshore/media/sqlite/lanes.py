"""Lanes: one row per run, kind and partition, with a counter for each state, so that no statement counts jobs."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping

from longshore.job import State
from longshore.media.sqlite.statements import statements
from longshore.queue import Count

READY, DELAYED, CLAIMED, COMPLETED, FAILED, CANCELLED = range(6)
"""The states as they are stored. Delayed is a separate state here, so that a claim never scans delayed jobs."""

STATES = (State.PENDING, State.PENDING, State.CLAIMED, State.COMPLETED, State.FAILED, State.CANCELLED)
"""The public state of each stored state."""

_SQL = statements("lanes")


class Moves:
    """The sum of one transaction's state changes, so that each lane is written once for the whole batch."""

    def __init__(self) -> None:
        self._changes: Counter[tuple[int, int]] = Counter()
        self._heads: dict[int, tuple[int, int]] = {}
        self._hosts: dict[int, int | None] = {}

    def add(self, lane: int, state: int, number: int = 1) -> None:
        """Count `number` jobs that enter a state; a negative number counts jobs that leave it."""
        self._changes[lane, state] += number

    def move(self, lane: int, before: int, after: int, number: int = 1) -> None:
        """Count `number` jobs that change from one state to another."""
        self._changes[lane, before] -= number
        self._changes[lane, after] += number

    def ready(self, lane: int, priority: int, job: int, host: int | None) -> None:
        """Record that jobs become ready in a lane: none sorts before `priority` and `job`; `host` None: several."""
        head = self._heads.get(lane)
        if head is None or (priority, job) < head:
            self._heads[lane] = (priority, job)
        self._hosts[lane] = host if self._hosts.get(lane, host) == host else None

    def write(self, db: sqlite3.Connection) -> None:
        """Write all changes. Heads and hosts come first, because their statements read whether the lane was empty."""
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


def single_host(least: int, greatest: int) -> int | None:
    """Return the host of jobs whose host numbers lie between these two; None if they may be several hosts."""
    return least if least == greatest else None


def set_heads(db: sqlite3.Connection, heads: Mapping[int, tuple[int, int]]) -> None:
    """Write a lower bound of the first ready job of each lane."""
    db.executemany(_SQL["set_head"], [(*head, lane) for lane, head in heads.items()])


def stats(db: sqlite3.Connection, run: str | None) -> list[Count]:
    """Return the counters, ordered by run, kind and partition."""
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
    """Delete the lanes that hold no job in any state."""
    db.execute(_SQL["remove_empty"])
