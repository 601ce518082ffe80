"""Jobs of another queue as columns: the arguments of the SQL function `take_over`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from longshore.extensions.transfer import Carried
from longshore.job import State
from longshore.media.postgres.columns import Lanes, encode_failure, unzipped
from longshore.stored import encode


class CarriedJobs(NamedTuple):
    """Transferred jobs, and their attempts, each with the position of its job (from 1)."""

    runs: list[str]
    kinds: list[str]
    partitions: list[str]
    which: list[int]
    keys: list[str]
    payloads: list[str]
    priorities: list[int]
    hosts: list[str]
    not_befores: list[float | None]
    limits: list[int]
    parents: list[str | None]
    depths: list[int]
    epochs: list[int]
    attempts: list[int]
    submitted_ats: list[float]
    states: list[str]
    settled_ats: list[float | None]
    durations: list[float | None]
    workers: list[str | None]
    results: list[str | None]
    failures: list[str | None]
    came_froms: list[str | None]
    versions: list[str | None]
    h_jobs: list[int]
    h_epochs: list[int]
    h_ended_ats: list[float]
    h_seconds: list[float | None]
    h_workers: list[str]
    h_failures: list[str]

    @staticmethod
    def types() -> list[str]:
        """Return the SQL types of the columns."""
        jobs = "text[] text[] text[] int[] text[] json[] int[] text[] float8[] int[] json[] int[] int[] int[] float8[]"
        ends = "text[] float8[] float8[] text[] json[] json[] json[] text[]"
        attempts = "int[] int[] float8[] float8[] text[] json[]"
        return f"{jobs} {ends} {attempts}".split()

    @classmethod
    def of(cls, carried: Iterable[Carried]) -> CarriedJobs:
        """Convert the jobs to columns. Of several jobs with the same name, only the first counts."""
        lanes = Lanes()
        rows: list[tuple[Any, ...]] = []
        attempts: list[tuple[Any, ...]] = []
        seen: set[tuple[str, str, str]] = set()
        for item in carried:
            name = (item.job.run, item.job.kind, item.job.key)
            if name not in seen:
                seen.add(name)
                rows.append((lanes.number(item.job), *_columns(item)))
                attempts.extend(
                    (len(rows), a.epoch, a.ended_at, a.seconds, a.worker, encode_failure(a.failure))
                    for a in item.history
                )
        columns: list[list[Any]] = [*lanes.columns, *unzipped(rows, 20), *unzipped(attempts, 6)]
        return cls(*columns)


def _columns(item: Carried) -> tuple[Any, ...]:
    job = item.job
    held = job.state is State.CLAIMED
    return (
        job.key,
        encode(job.payload, "A job's payload").decode(),
        job.priority,
        job.host,
        None if held else job.not_before,
        job.max_attempts,
        None if job.parent is None else encode(job.parent).decode(),
        job.depth,
        job.epoch,
        job.attempts,
        job.submitted_at,
        State.PENDING if held else job.state,
        job.settled_at,
        job.seconds,
        None if held else job.worker,
        encode(job.result, "A result").decode() if job.state is State.COMPLETED else None,
        # If there is a history, its last attempt has the failure.
        None if job.failure is None or item.history else encode_failure(job.failure),
        encode(item.came_from).decode() if item.came_from else None,
        job.handler_version or None,
    )
