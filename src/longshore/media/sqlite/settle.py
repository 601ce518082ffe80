"""Settlement: write each outcome if its lease is still valid, and nothing of it otherwise."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Collection, Sequence
from datetime import timedelta

import msgspec

from longshore.extensions.transfer import encode_came_from
from longshore.job import NewJob, number_of
from longshore.lease import WorkerId
from longshore.media.sqlite.lanes import CLAIMED, COMPLETED, DELAYED, FAILED, READY, Moves
from longshore.media.sqlite.statements import json_list, statements
from longshore.media.sqlite.submit import NewRows, Origin
from longshore.outcome import Completed, Failed, Released, Settlement, Snoozed
from longshore.queue import SettleAnswers
from longshore.stored import encode

_SQL = statements("settle")

Held = tuple[int, int, int, int]
"""A claimed job: its number, epoch, lane and holder."""

Ending = tuple[int, float, float | None, str, bytes | None, str | None]
"""A row of `settlement`: the job's number, the time, the duration, the worker's label, the result and the version."""


class SettlementRows:
    """A batch of settlements to write.

    The constructor does all work that does not read the tables, before the lock is taken, because every writer waits
    for that lock. `write` may run again if another process held the lock.
    """

    def __init__(self, settlements: Sequence[Settlement], now: float) -> None:
        self._now = now
        self._prepared = [_prepare(settlement, now) for settlement in settlements]

    def write(self, db: sqlite3.Connection) -> SettleAnswers:
        """Write the outcomes whose lease is valid; return for each, in order, whether it was."""
        numbers = json_list([ending[0] for _, ending in self._prepared])
        held = {row[0]: row for row in db.execute(_SQL["held"], (numbers,))}
        holders = _numbers_of(db, {settlement.lease.worker for settlement, _ in self._prepared})
        rows = _Rows(db, self._now)
        answers = []
        for settlement, ending in self._prepared:
            found = held.get(ending[0])
            lease = settlement.lease
            accepted = found is not None and found[1] == lease.job.epoch and found[3] == holders.get(lease.worker)
            if accepted:
                # Removed, so that a second settlement of the same lease in this batch is refused.
                rows.add(held.pop(ending[0]), settlement, ending)
            answers.append(accepted)
        return SettleAnswers(answers, rows.write())


def _numbers_of(db: sqlite3.Connection, workers: Collection[WorkerId]) -> dict[WorkerId, int]:
    """Return the numbers of those of these workers that may hold jobs."""
    found = ((worker, db.execute(_SQL["holder"], (worker.label, worker.incarnation)).fetchone()) for worker in workers)
    return {worker: row[0] for worker, row in found if row is not None}


def _prepare(settlement: Settlement, now: float) -> tuple[Settlement, Ending]:
    outcome = settlement.outcome
    result = (
        encode(outcome.result, "A result") if isinstance(outcome, Completed) and outcome.result is not None else None
    )
    lease, version = settlement.lease, settlement.handler_version or None
    return settlement, (number_of(lease.job.id), now, settlement.seconds, lease.worker.label, result, version)


class _Rows:
    """The rows that the accepted settlements write, collected per statement."""

    def __init__(self, db: sqlite3.Connection, now: float) -> None:
        self._db = db
        self._now = now
        self._moves = Moves()
        self._completed: list[Held] = []
        self._failed: list[tuple[int, int]] = []
        self._given_back: list[tuple[int, int, int, float | None, int]] = []
        self._endings: list[Ending] = []
        self._failures: list[tuple[int, int, str, float, float | None, bytes]] = []
        self._follow_ons: list[NewJob] = []
        self._origins: list[Origin] = []
        self._came_from: list[tuple[bytes | None, int]] = []

    def add(self, held: Held, settlement: Settlement, ending: Ending) -> None:
        """Add the accepted settlement of a claimed job."""
        outcome = settlement.outcome
        if isinstance(outcome, Completed):
            self._completed.append(held)
            self._endings.append(ending)
            if settlement.came_from:
                self._came_from.append((encode_came_from(settlement.came_from), held[0]))
            if outcome.jobs:
                parent = settlement.lease.job
                self._follow_ons += [msgspec.structs.replace(job, run=parent.run) for job in outcome.jobs]
                self._origins += [(parent.kind, parent.key, parent.depth + 1)] * len(outcome.jobs)
            return
        number, epoch, lane, _ = held
        # Read one job at a time: most settlements are completions, which do not need these columns.
        priority, host, attempts, max_attempts = self._db.execute(_SQL["limits"], (number,)).fetchone()
        match outcome:
            case Failed():
                attempts += 1
                limit = outcome.max_attempts or max_attempts
                worker, failure = settlement.lease.worker.label, encode(outcome.failure, "A failure")
                self._failures.append((number, epoch, worker, self._now, settlement.seconds, failure))
                if outcome.failure.retryable and attempts < limit:
                    self._give_back((lane, priority, number, host), attempts, limit, outcome.retry_in)
                else:
                    self._failed.append((limit, number))
                    self._endings.append(ending)
                    self._moves.move(lane, CLAIMED, FAILED)
            case Snoozed():
                self._give_back((lane, priority, number, host), attempts, max_attempts, outcome.delay)
            case Released():
                self._give_back((lane, priority, number, host), attempts, max_attempts, timedelta(0))

    def write(self) -> Sequence[NewJob]:
        """Write all rows that were added; return the follow-on jobs that were left out as duplicates."""
        db = self._db
        if self._completed:
            db.execute(_SQL["complete"], (json_list([held[0] for held in self._completed]),))
            for lane, number in Counter(held[2] for held in self._completed).items():
                self._moves.move(lane, CLAIMED, COMPLETED, number)
        db.executemany(_SQL["fail"], self._failed)
        db.executemany(_SQL["give_back"], self._given_back)
        db.executemany(_SQL["add_settlement"], self._endings)
        db.executemany(_SQL["add_failure"], self._failures)
        db.executemany(_SQL["set_came_from"], self._came_from)
        self._moves.write(db)
        follow_ons = NewRows(self._follow_ons, self._now, self._origins)
        follow_ons.write(db)
        return follow_ons.duplicates

    def _give_back(self, place: tuple[int, int, int, int], attempts: int, max_attempts: int, delay: timedelta) -> None:
        lane, priority, number, host = place
        not_before = self._now + delay.total_seconds() if delay else None
        state = READY if not_before is None else DELAYED
        self._given_back.append((state, attempts, max_attempts, not_before, number))
        self._moves.move(lane, CLAIMED, state)
        if state == READY:
            self._moves.ready(lane, priority, number, host)
