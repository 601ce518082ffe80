"""A job: one durable unit of work, its states, and the moves between them that are legal."""

from __future__ import annotations

import hashlib
from enum import StrEnum

import msgspec

from longshore.errors import Failure
from longshore.stored import (
    BIGGEST,
    UNFIT,
    Json,
    JsonObject,
    check_instant,
    check_payload,
    check_texts,
    check_whole,
    refusal,
)
from longshore.url import host_of, url_key

DEFAULT_MAX_ATTEMPTS = 4
"""Three retries after the first attempt."""


class State(StrEnum):
    """Where a job stands. A delay is a field (`not_before`), not a state."""

    PENDING = "pending"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: dict[tuple[State, State], str] = {
    (State.PENDING, State.CLAIMED): "claim",
    (State.CLAIMED, State.COMPLETED): "settle as completed",
    (State.CLAIMED, State.FAILED): "settle or reap, failed for good",
    (State.CLAIMED, State.PENDING): "settle or reap, to be tried again",
    (State.CLAIMED, State.CANCELLED): "cancel",
    (State.PENDING, State.CANCELLED): "cancel",
    (State.FAILED, State.PENDING): "retry",
    (State.CANCELLED, State.PENDING): "retry",
}
"""Every legal move and what makes it. Nothing else changes a job's state; only prune removes a job."""

FINISHED = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be submitted. `(run, kind, key)` is what makes it unique; see `new_job` for the defaults.

    One that no medium could keep is refused with a `UsageError` as it is made; its payload, as it is submitted.
    """

    run: str
    kind: str
    key: str
    payload: JsonObject
    priority: int = 0
    """Lower first; equal ones by age."""
    partition: str = ""
    host: str = ""
    not_before: float | None = None
    """Not to be claimed before this instant (seconds since 1970, by the medium's clock)."""
    max_attempts: int = DEFAULT_MAX_ATTEMPTS

    def __post_init__(self) -> None:
        check_texts(
            (self.run, self.kind, self.key, self.partition, self.host), "A job's run, kind, key, partition and host"
        )
        check_payload(self.payload, "A job's payload")
        check_whole(self.priority, -BIGGEST, BIGGEST, "A job's priority")
        check_whole(self.max_attempts, 1, BIGGEST, "A job's max_attempts")
        if self.not_before is not None:
            check_instant(self.not_before, "A job's not_before")


class JobName(msgspec.Struct, frozen=True):
    """What a job is called within its run, on every medium."""

    kind: str
    key: str


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its medium knows it."""

    id: str
    """Given by the medium; opaque. Across media a job is known by run, kind and key."""
    run: str
    kind: str
    key: str
    payload: JsonObject
    priority: int = 0
    partition: str = ""
    host: str = ""
    parent: JobName | None = None
    """The job whose settlement submitted this one; None for one that was submitted from outside."""
    depth: int = 0
    """How many jobs this one goes back to in its run: its parent's depth and one."""
    state: State = State.PENDING
    epoch: int = 0
    """Rises with every claim and is never reset: the fence."""
    attempts: int = 0
    """Attempts that are over and count. A release or a snooze does not count; a crash or an expiry does."""
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    not_before: float | None = None
    submitted_at: float = 0.0
    settled_at: float | None = None
    worker: str | None = None
    """The label of the worker that holds the job, or last settled it."""
    seconds: float | None = None
    """How long the attempt that settled the job took."""
    result: Json = None
    failure: Failure | None = None
    """Why the last failed attempt failed; kept while the job waits for its retry."""

    @property
    def attempt(self) -> int:
        """The number of the attempt under way, from 1."""
        return self.attempts + 1


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a job's history: an attempt that failed, or whose worker went silent."""

    epoch: int
    worker: str
    ended_at: float
    failure: Failure
    seconds: float | None = None


def new_job(
    kind: str,
    payload: JsonObject,
    *,
    run: str = "",
    key: str | None = None,
    priority: int = 0,
    partition: str = "",
    host: str | None = None,
    not_before: float | None = None,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
) -> NewJob:
    """Make a job to submit, or to return from a handler as a follow-on.

    Without a key, a payload with a `url` is known by that URL's canonical form, any other by its whole content.
    A follow-on job joins the run of the job it came from, whatever `run` says.
    """
    check_payload(payload, "A job's payload")
    url = payload.get("url")
    if isinstance(url, str):
        check_texts((url,), "A job's url")
    if key is None:
        key = url_key(url) if isinstance(url, str) else payload_key(payload)
    if host is None:
        host = host_of(url) if isinstance(url, str) else ""
    return NewJob(
        run=run,
        kind=kind,
        key=key,
        payload=payload,
        priority=priority,
        partition=partition,
        host=host,
        not_before=not_before,
        max_attempts=max_attempts,
    )


def number_of(job_id: str) -> int:
    """The number that an id says, on media that number their jobs; 0, which no job has, for an id that says none."""
    return int(job_id) if job_id.isascii() and job_id.isdecimal() and len(job_id) <= 18 else 0


def payload_key(payload: JsonObject) -> str:
    """The SHA-256 of the payload's JSON with sorted keys: the key of a job that is not a URL."""
    try:
        return hashlib.sha256(msgspec.json.encode(payload, order="sorted")).hexdigest()
    except UNFIT as error:
        raise refusal(error, "A job's payload") from error
