"""Selections: read the selected jobs, and retry, cancel or prune all of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from datetime import timedelta
from typing import Any

import msgspec

from longshore.errors import Failure
from longshore.extensions.transfer import decode_came_from
from longshore.job import Attempt, Job, JobName, number_of
from longshore.media.sqlite import lanes
from longshore.media.sqlite.lanes import CANCELLED, CLAIMED, COMPLETED, DELAYED, FAILED, READY, STATES, Moves
from longshore.media.sqlite.statements import json_list, statements
from longshore.queue import Selection
from longshore.stored import JsonObject

_SQL = statements("select")
_OPERATE = statements("operate")
_NEAR = 10
"""A page of pending jobs is first searched in the next `_NEAR` pages of jobs, and only then among all pending jobs."""
_LOOKED_UP = 100
"""Payloads that one statement looks up."""
_WAITING = {READY: "ready", DELAYED: "delayed"}
_decode = msgspec.json.Decoder().decode
_decode_failure = msgspec.json.Decoder(Failure).decode


def jobs(db: sqlite3.Connection, selection: Selection, now: float, after: int, limit: int, queue: str) -> list[Job]:
    """Return a page of the selected jobs, oldest first; `queue` is the uuid of the queue."""
    values = _values(selection, now) | {"after": after, "limit": limit}
    if selection.ids is None:
        begin, *counts = db.execute(_SQL["extent"], values).fetchone()
        if begin is None:
            return []
        values |= {"after": max(after, begin - 1), "first": after < max(begin, 1)}
        if selection.states is not None:
            values["ids"] = json_list(_found(db, selection, values, counts))
    return [_job(row, queue) for row in db.execute(_statement("jobs", values), values)]


def payloads(db: sqlite3.Connection, identities: Sequence[bytes]) -> list[JsonObject | None]:
    """Return the payload of the job with each identity; None if there is none."""
    found = _by_identity(db, "payloads", identities)
    return [None if payload is None else _decode(payload) for payload in found]


def job_ids(db: sqlite3.Connection, identities: Sequence[bytes]) -> list[str | None]:
    """Return the id of the job with each identity; None if there is none."""
    return [None if number is None else str(number) for number in _by_identity(db, "numbers", identities)]


def _by_identity(db: sqlite3.Connection, statement: str, identities: Sequence[bytes]) -> list[Any]:
    found: dict[bytes, Any] = {}
    for first in range(0, len(identities), _LOOKED_UP):
        several = identities[first : first + _LOOKED_UP]
        marks = ", ".join("?" * len(several))
        found.update(db.execute(_SQL[statement].replace("?", marks), several))
    return [found.get(identity) for identity in identities]


def history(db: sqlite3.Connection, job_id: str) -> list[Attempt]:
    """Return the failed and expired attempts of a job, oldest first."""
    return [
        Attempt(epoch=epoch, worker=worker, ended_at=ended_at, failure=_decode_failure(failure), seconds=seconds)
        for epoch, worker, ended_at, failure, seconds in db.execute(_SQL["history"], (number_of(job_id),))
    ]


def retry(db: sqlite3.Connection, selection: Selection, now: float) -> int:
    """Make failed and cancelled jobs ready, with no attempt used; return how many."""
    moves = _choose(db, selection, now, frozenset({FAILED, CANCELLED}), READY)
    return _write(db, moves, "unsettle", "retry_jobs")


def cancel(db: sqlite3.Connection, selection: Selection, now: float) -> int:
    """Cancel pending and claimed jobs; return how many. A worker that held one finds its lease lost."""
    moves = _choose(db, selection, now, frozenset({READY, DELAYED, CLAIMED}), CANCELLED)
    db.execute(_OPERATE["settle_cancelled"], {"now": now})
    return _write(db, moves, "cancel_jobs")


def release(db: sqlite3.Connection, selection: Selection, now: float) -> int:
    """Make claimed jobs ready; return how many. A worker that held one finds its lease lost."""
    return _write(db, _choose(db, selection, now, frozenset({CLAIMED}), READY), "release_jobs")


def prune(db: sqlite3.Connection, selection: Selection, now: float) -> int:
    """Delete finished jobs with all their data; return how many."""
    moves = _choose(db, selection, now, frozenset({COMPLETED, FAILED, CANCELLED}), None)
    number = _write(db, moves, "unsettle", "remove_failures", "remove_content", "remove_jobs")
    lanes.remove_empty(db)
    return number


def prepare(db: sqlite3.Connection) -> None:
    """Create the function and the temporary table that the statements here use."""
    db.create_function("error_matches", 2, _error_matches, deterministic=True)
    db.execute(_OPERATE["create_chosen"])


def _found(db: sqlite3.Connection, selection: Selection, values: dict[str, Any], counts: list[int]) -> list[int]:
    """Return the numbers of a page of jobs in the selected states; `counts` has the selected lanes' jobs per state."""
    wanted = {state for state, name in enumerate(STATES) if name in (selection.states or ()) and counts[state]}
    most = values["limit"]
    if values["first"] and selection.error is None and selection.older_than is None:
        # Stop when all jobs in these states are found.
        most = min(most, sum(counts[state] for state in wanted))
    reach = values["after"] + _NEAR * values["limit"]

    def look(name: str, states: AbstractSet[int], most: int) -> list[int]:
        given = values | {"states": json_list(states), "limit": most, "reach": reach}
        return [number for (number,) in db.execute(_SQL[name].format(condition=_condition(name)), given)]

    found = []
    if pending := wanted & {READY, DELAYED}:
        # Most pages are complete after the near jobs; only the missing rest is searched among all pending jobs.
        found = look("near", pending, most)
        far = most - len(found)
        found += [number for state in pending if far for number in look(_WAITING[state], {state}, far)]
    if CLAIMED in wanted:
        found += look("claimed", {CLAIMED}, most)
    if finished := wanted & {COMPLETED, FAILED, CANCELLED}:
        found += look("finished" if COMPLETED in finished else "not_completed", finished, most)
    return sorted(found)[:most]


def _condition(name: str) -> str:
    """Return the condition for a statement; statements on unfinished jobs do not join `settlement`."""
    settled = name in ("finished", "not_completed", "choose", "jobs")
    return _SQL["condition"] if settled else _SQL["condition"].replace("settlement.settled_at", "NULL")


def _choose(
    db: sqlite3.Connection, selection: Selection, now: float, states: frozenset[int], target: int | None
) -> Moves:
    """Write the selected jobs to the table `chosen` (on disk: a million of them need no memory); return their moves."""
    db.execute(_OPERATE["clear_chosen"])
    if selection.states is not None:
        states = frozenset(state for state in states if STATES[state] in selection.states)
    values = _values(selection, now) | {"after": 0, "states": json_list(states)}
    db.execute(_statement("choose", values), values)
    moves = Moves()
    for lane, state, number, priority, job, *hosts in db.execute(_OPERATE["summary"]):
        moves.add(lane, state, -number)
        if target is not None:
            moves.add(lane, target, number)
        if target == READY:
            moves.ready(lane, priority, job, lanes.single_host(*hosts))
    return moves


def _write(db: sqlite3.Connection, moves: Moves, *steps: str) -> int:
    """Run the statements and write the moves. Return how many rows the last statement, the one on `job`, changed."""
    number = 0
    for step in steps:
        number = db.execute(_OPERATE[step]).rowcount
    moves.write(db)
    db.execute(_OPERATE["clear_chosen"])
    return number


def _statement(name: str, values: dict[str, Any]) -> str:
    which = "by_age" if values["ids"] is None else "by_id"
    return _SQL[name].format(which=_SQL[which], condition=_condition(name))


def _values(selection: Selection, now: float) -> dict[str, Any]:
    s = selection
    return {
        "run": s.run,
        "ids": None if s.ids is None else json_list(frozenset(number_of(job_id) for job_id in s.ids)),
        "kinds": json_list(s.kinds),
        "partitions": json_list(s.partitions),
        "states": None
        if s.states is None
        else json_list(frozenset(number for number, state in enumerate(STATES) if state in s.states)),
        "error": s.error,
        "older_than_us": None if s.older_than is None else s.older_than // timedelta(microseconds=1),
        "now": now,
    }


def _job(row: tuple[Any, ...], queue: str) -> Job:
    number, run, kind, key, payload, priority, partition, host, parent_kind, parent_key, depth, state, *rest = row
    epoch, attempts, max_attempts, not_before, submitted_at, *ending = rest
    settled_at, worker, seconds, result, failure, came_from, version = ending
    return Job(
        id=str(number),
        run=run,
        kind=kind,
        key=key,
        payload=_decode(payload),
        priority=priority,
        partition=partition,
        host=host,
        parent=None if parent_kind is None else JobName(parent_kind, parent_key),
        depth=depth,
        state=STATES[state],
        epoch=epoch,
        attempts=attempts,
        max_attempts=max_attempts,
        not_before=not_before,
        submitted_at=submitted_at,
        settled_at=settled_at,
        worker=worker,
        seconds=seconds,
        result=None if result is None else _decode(result),
        failure=None if failure is None else _decode_failure(failure),
        queue=queue,
        came_from=decode_came_from(came_from),
        handler_version=version or "",
    )


def _error_matches(pattern: str, encoded: bytes | None) -> bool:
    return Selection(error=pattern).matches_error(None if encoded is None else _decode_failure(encoded))
