"""Conversion between values and the database: arguments as columns, and rows as values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fnmatch import translate
from functools import lru_cache
from hashlib import sha256
from typing import Any, NamedTuple

import msgspec

from longshore.errors import Failure
from longshore.extensions.transfer import decode_came_from
from longshore.job import Job, JobName, NewJob, State, number_of
from longshore.lease import Lease
from longshore.outcome import Completed, Failed, Settlement, Snoozed
from longshore.queue import Selection
from longshore.stored import BIGGEST, encode

_decode = msgspec.json.decode
_failure = msgspec.json.Decoder(Failure)
_job_name = msgspec.json.Decoder(JobName)


@lru_cache(maxsize=50_000)
def host_number(host: str) -> int:
    """Return the number of a host, the same as the database function of this name returns."""
    return int.from_bytes(sha256(host.encode()).digest()[:8], signed=True)


class BatchLease(Lease, frozen=True):
    """A lease with the id of its row in `batch`, so that the settlement need not search for it."""

    batch: int


class Lanes:
    """The distinct combinations of run, kind and partition of some jobs, numbered from 1."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[str, str, str], int] = {}

    def number(self, job: NewJob | Job) -> int:
        """Return the number of the job's lane."""
        name = (job.run, job.kind, job.partition)
        return self._numbers.setdefault(name, len(self._numbers) + 1)

    @property
    def columns(self) -> list[list[str]]:
        """The runs, kinds and partitions, in the order of the numbers."""
        return unzipped(self._numbers, 3)


class NewJobs(NamedTuple):
    """Jobs to submit, as columns: the lanes, and for each job the number of its lane and its values."""

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

    @staticmethod
    def types() -> list[str]:
        """Return the SQL types of the columns; each argument is cast, because not every driver can infer its type."""
        lanes, jobs = "text[] text[] text[]", "int[] text[] json[] int[] text[] float8[] int[]"
        return f"{lanes} {jobs}".split()

    @classmethod
    def of(cls, jobs: Iterable[NewJob]) -> NewJobs:
        lanes = Lanes()
        rows = [
            (
                lanes.number(job),
                job.key,
                encode(job.payload, "A job's payload").decode(),
                job.priority,
                job.host,
                job.not_before,
                job.max_attempts,
            )
            for job in jobs
        ]
        columns: list[list[Any]] = [*lanes.columns, *unzipped(rows, 7)]
        return cls(*columns)


class Settlements(NamedTuple):
    """Settlements as columns: the arguments of the SQL function `settle`."""

    batches: list[int]
    searched: list[str]
    holders: list[str]
    c_jobs: list[int]
    c_epochs: list[int]
    c_holders: list[int]
    c_results: list[str]
    c_seconds: list[float | None]
    c_versions: list[str | None]
    p_positions: list[int]
    p_came_from: list[str]
    o_jobs: list[int]
    o_epochs: list[int]
    o_holders: list[int]
    o_failed: list[bool]
    o_failures: list[str | None]
    o_retryable: list[bool]
    o_delays: list[float]
    o_limits: list[int | None]
    o_seconds: list[float | None]
    f_runs: list[str]
    f_kinds: list[str]
    f_partitions: list[str]
    f_parents: list[int]
    f_lanes: list[int]
    f_keys: list[str]
    f_payloads: list[str]
    f_priorities: list[int]
    f_hosts: list[str]
    f_not_befores: list[float | None]
    f_limits: list[int]
    f_names: list[str]
    f_depths: list[int]

    @staticmethod
    def types() -> list[str]:
        """Return the SQL types of the columns."""
        completed = "bigint[] int[] int[] json[] float8[] text[] int[] json[]"
        others = "bigint[] int[] int[] bool[] json[] bool[] float8[] int[] float8[]"
        follow_ons = "text[] text[] text[] int[] int[] text[] json[] int[] text[] float8[] int[] json[] int[]"
        return f"bigint[] text[] text[] {completed} {others} {follow_ons}".split()


class SettlementBatch(NamedTuple):
    """Settlements as arguments, and the position of each in the caller's sequence."""

    columns: Settlements
    completed_at: list[int]
    """For each completed job, its index in the caller's sequence."""
    others_at: list[int]
    """For each other job, its index in the caller's sequence."""
    adds_work: bool
    """Whether a job may become claimable by these settlements."""

    def answer(self, size: int, completed: Sequence[int], others: Sequence[int]) -> list[bool]:
        """Return in the caller's order whether each was accepted, from the accepted positions (counted from 1)."""
        accepted = [False] * size
        for position in completed:
            accepted[self.completed_at[position - 1]] = True
        for position in others:
            accepted[self.others_at[position - 1]] = True
        return accepted


def sort_settlements(settlements: Sequence[Settlement]) -> SettlementBatch:
    """Split the settlements by outcome. Of several settlements of one lease, only the first counts."""
    seen: set[tuple[str, int, int]] = set()
    batches: set[int] = set()
    searched: set[str] = set()
    holders: dict[str, int] = {}
    completed: list[tuple[Any, ...]] = []
    completed_at: list[int] = []
    passed: list[tuple[int, str]] = []
    others: list[tuple[Any, ...]] = []
    others_at: list[int] = []
    follow_ons: list[NewJob] = []
    parents: list[tuple[int, str, int]] = []
    for place, (lease, outcome, seconds) in enumerate((s.lease, s.outcome, s.seconds) for s in settlements):
        job = lease.job
        holder = holders.setdefault(lease.worker.incarnation, len(holders) + 1)
        name = (job.id, job.epoch, holder)
        if name in seen or not number_of(job.id) or not 0 < job.epoch <= BIGGEST:
            continue
        seen.add(name)
        if isinstance(lease, BatchLease):
            batches.add(lease.batch)
        else:
            searched.add(lease.worker.incarnation)
        if isinstance(outcome, Completed):
            result, version = encode(outcome.result, "A result").decode(), settlements[place].handler_version or None
            completed.append((int(job.id), job.epoch, holder, result, seconds, version))
            completed_at.append(place)
            if settlements[place].came_from:
                passed.append((len(completed), encode(settlements[place].came_from).decode()))
            if outcome.jobs:
                follow_ons.extend(msgspec.structs.replace(follow_on, run=job.run) for follow_on in outcome.jobs)
                parent = (len(completed), encode(JobName(job.kind, job.key)).decode(), job.depth + 1)
                parents.extend([parent] * len(outcome.jobs))
        else:
            others.append((int(job.id), job.epoch, holder, *_other(outcome), seconds))
            others_at.append(place)
    new = NewJobs.of(follow_ons)
    lanes, jobs = new[:3], new[3:]
    positions, names, depths = unzipped(parents, 3)
    ended = [*unzipped(completed, 6), *unzipped(passed, 2), *unzipped(others, 9)]
    by_column = [*ended, *lanes, positions, *jobs, names, depths]
    columns = Settlements(sorted(batches), sorted(searched), list(holders), *by_column)
    return SettlementBatch(columns, completed_at, others_at, adds_work=bool(others or follow_ons))


def _other(outcome: Any) -> tuple[bool, str | None, bool, float, int | None]:
    """Return whether it failed, the failure, whether it is retryable, the delay in seconds and the attempt limit."""
    if isinstance(outcome, Failed):
        failure = encode_failure(outcome.failure)
        return True, failure, outcome.failure.retryable, outcome.retry_in.total_seconds(), outcome.max_attempts or None
    delay = outcome.delay.total_seconds() if isinstance(outcome, Snoozed) else 0.0
    return False, None, True, delay, None


def encode_failure(failure: Failure) -> str:
    """Return a failure as JSON without NUL characters, which PostgreSQL's JSON operators refuse."""
    clean = {
        name: value.replace("\0", "\ufffd")
        for name in ("error_type", "message", "exception", "traceback")
        if "\0" in (value := getattr(failure, name))
    }
    return encode(msgspec.structs.replace(failure, **clean) if clean else failure, "A failure").decode()


def decode_failure(text: str) -> Failure:
    return _failure.decode(text)


def decode_parent(text: str | None) -> JobName | None:
    return None if text is None else _job_name.decode(text)


def job_of(row: Any, queue: str) -> Job:
    """Return the job of a row of the view `known`; `queue` is the uuid of the queue."""
    return Job(
        id=str(row["id"]),
        run=row["run"],
        kind=row["kind"],
        key=row["key"],
        payload=_decode(row["payload"]),
        priority=row["priority"],
        partition=row["partition"],
        host=row["host"],
        parent=decode_parent(row["parent"]),
        depth=row["depth"],
        state=State(row["state"]),
        epoch=row["epoch"],
        attempts=row["attempts"],
        max_attempts=row["max_attempts"],
        not_before=instant(row["not_before"]),
        submitted_at=row["submitted_at"].timestamp(),
        settled_at=instant(row["settled_at"]),
        worker=row["worker"],
        seconds=row["seconds"],
        result=None if row["result"] is None else _decode(row["result"]),
        failure=None if row["failure"] is None else decode_failure(row["failure"]),
        queue=queue,
        came_from=decode_came_from(row["came_from"]),
        handler_version=row["handler_version"] or "",
    )


def instant(at: Any) -> float | None:
    return None if at is None else float(at.timestamp())


def selection_columns(selection: Selection) -> tuple[Any, ...]:
    """Return a selection as the arguments of the function `selected`, without those of the page."""
    s = selection
    return (
        s.run,
        None if s.ids is None else sorted(number_of(job_id) for job_id in s.ids),
        None if s.kinds is None else sorted(s.kinds),
        None if s.partitions is None else sorted(s.partitions),
        None if s.states is None else sorted(s.states),
        None if s.error is None else shell_pattern(s.error.lower()),
        None if s.older_than is None else s.older_than.total_seconds(),
    )


def shell_pattern(pattern: str) -> str:
    """Return a shell pattern as a regular expression in PostgreSQL's syntax."""
    # Python writes `(?s:…)\Z`; PostgreSQL's dot always matches a newline, and its `$` matches only at the end.
    inner = translate(pattern).removeprefix("(?s:").removesuffix(r")\Z")
    return "^(?:" + inner.replace("(?>.*?", "(?:.*?") + ")$"


def unzipped(rows: Iterable[tuple[Any, ...]], width: int) -> list[list[Any]]:
    """Return rows as `width` columns, also if there are no rows."""
    columns = [list(column) for column in zip(*rows, strict=True)]
    return columns or [[] for _ in range(width)]
