"""A job: one durable unit of work, its states, and the legal transitions between them."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from enum import StrEnum

import msgspec

from longshore.errors import Failure, UsageError
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
from longshore.url import canonical_url, host_of, key_and_host, url_key

DEFAULT_MAX_ATTEMPTS = 4
"""Three retries after the first attempt."""


class State(StrEnum):
    """The state of a job. A delay is a field (`not_before`), not a state."""

    PENDING = "pending"
    CLAIMED = "claimed"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


TRANSITIONS: dict[tuple[State, State], str] = {
    (State.PENDING, State.CLAIMED): "claim",
    (State.CLAIMED, State.COMPLETED): "settle as completed",
    (State.CLAIMED, State.FAILED): "settle or reap, failed for good",
    (State.CLAIMED, State.PENDING): "settle or reap, to be tried again; release",
    (State.CLAIMED, State.CANCELLED): "cancel",
    (State.PENDING, State.CANCELLED): "cancel",
    (State.FAILED, State.PENDING): "retry",
    (State.CANCELLED, State.PENDING): "retry",
}
"""Every legal transition and the operation that makes it. Nothing else changes a job's state; only prune deletes it."""

FINISHED = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})


class NewJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job to be submitted. It is unique by `(run, kind, key)`; see `new_job` for the defaults.

    The constructor raises `UsageError` for values that no medium can store; the payload is checked by `submit`.
    """

    run: str
    kind: str
    key: str
    payload: JsonObject
    priority: int = 0
    """Lower numbers are claimed first; jobs of equal priority by age."""
    partition: str = ""
    host: str = ""
    not_before: float | None = None
    """The job is not claimed before this instant (seconds since 1970, by the medium's clock)."""
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    default_key: bool = False
    """The key was derived, because neither a key nor an identity was given. It is not stored: it says that the identity
    of the handler may replace the key, and that a duplicate with another payload is worth a notice."""

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
    """The name of a job within its run, the same on every medium."""

    kind: str
    key: str


class CameFrom(msgspec.Struct, frozen=True, array_like=True):
    """A job of another queue that became this one: by a copy, a move, or the merge of an offline checkout."""

    queue: str
    """The uuid of that queue; empty if it had none."""
    job: str
    """Its id there."""
    epoch: int
    """Its epoch there."""
    here: int
    """The epoch that this job had when it came."""


QueueAttempt = tuple[str, str, int]
"""An attempt, named for all queues: the uuid of the queue, the id of the job in it, and the epoch."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A job as its medium stores it."""

    id: str
    """Assigned by the medium; opaque, and never used again. Across media a job is identified by run, kind and key."""
    run: str
    kind: str
    key: str
    payload: JsonObject
    priority: int = 0
    partition: str = ""
    host: str = ""
    parent: JobName | None = None
    """The job whose settlement submitted this one; None if it is not a follow-on job."""
    depth: int = 0
    """The number of its ancestors: its parent's depth plus one, or 0 without a parent."""
    state: State = State.PENDING
    epoch: int = 0
    """Increases with every claim and is never reset: it fences off settlements under older leases."""
    attempts: int = 0
    """The number of ended attempts. A release or a snooze does not count; a crash or an expiry does."""
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    not_before: float | None = None
    submitted_at: float = 0.0
    settled_at: float | None = None
    worker: str | None = None
    """The label of the worker that holds the job, or last settled it."""
    seconds: float | None = None
    """The duration of the attempt that settled the job."""
    result: Json = None
    failure: Failure | None = None
    """The failure of the last failed attempt; kept while the job waits for its retry."""
    handler_version: str = ""
    """The version of the handler file that completed the job (see `Settlement`); empty if it is not known."""
    queue: str = ""
    """The uuid of the queue that returned the job; empty for a queue of an earlier version that has none yet."""
    came_from: tuple[CameFrom, ...] = ()
    """The queues through which it came here, the last one first; empty for a job that was submitted here."""

    @property
    def life(self) -> str:
        """The name of this submission of the job, the same in every queue that takes the job over.

        A job that is pruned and submitted again has another life.
        """
        born = next((each for each in reversed(self.came_from) if each.queue), None)
        return f"{self.queue}/{self.id}" if born is None else f"{born.queue}/{born.job}"

    @property
    def completed_by(self) -> tuple[QueueAttempt, ...]:
        """The names that the attempt may have that completed this job, the most likely first.

        The attempt was made in this queue, or in the one that the job came from since it was last claimed here.
        """
        here = (self.queue, self.id, self.epoch)
        if not self.came_from:
            return (here,)
        return (here, *((each.queue, each.job, each.epoch) for each in self.came_from if each.here == self.epoch))

    @property
    def attempt(self) -> int:
        """The number of the current attempt, from 1."""
        return self.attempts + 1


class Attempt(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of a job's history: an attempt that failed or whose lease expired."""

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
    identity: Sequence[str] | None = None,
    priority: int = 0,
    partition: str = "",
    host: str | None = None,
    not_before: float | None = None,
    max_attempts: int = DEFAULT_MAX_ATTEMPTS,
) -> NewJob:
    """Make a job to submit, or to return from a handler as a follow-on.

    Two jobs of a kind are the same job if their keys are equal. `identity` names the payload fields that make the key;
    by default that is `url`, or the whole payload of a job without one. `key` overrides both.
    A follow-on job always joins the run of the job it came from; its `run` is ignored.
    """
    check_payload(payload, "A job's payload")
    url = payload.get("url")
    if isinstance(url, str):
        check_texts((url,), "A job's url")
    default_key = key is None and identity is None
    if default_key and host is None and isinstance(url, str):
        key, host = key_and_host(url)
    if key is None:
        key = derived_key(payload, identity if identity is None else checked_identity(identity))
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
        default_key=default_key,
    )


def number_of(job_id: str) -> int:
    """Return the number in a job id, for media that number their jobs; 0, which no job has, if it is not a number."""
    return int(job_id) if job_id.isascii() and job_id.isdecimal() and len(job_id) <= 18 else 0


def checked_identity(fields: Sequence[str]) -> tuple[str, ...]:
    """Return the names of the payload fields that make jobs different. Raise `UsageError` if they are not names."""
    if isinstance(fields, str) or not isinstance(fields, Sequence):
        raise UsageError(f"An identity is a list of payload fields, as in ('url', 'page'), not {fields!r}")
    for field in fields:
        if not isinstance(field, str) or not field:
            raise UsageError(f"An identity names payload fields, as in ('url', 'page'); {field!r} is no name")
        check_texts((field,), "The fields of an identity")
    if not fields:
        raise UsageError("An identity names at least one payload field, as in ('url', 'page')")
    return tuple(dict.fromkeys(fields))


def derived_key(payload: JsonObject, identity: Sequence[str] | None = None) -> str:
    """Return the key of a job with this payload: that of its `identity` fields, of its URL, or of the whole payload.

    The canonical form of `url` counts. Fields that the payload does not have are left out; raise `UsageError` if it has
    none of them.
    """
    url = payload.get("url")
    if identity is None:
        return url_key(url) if isinstance(url, str) else payload_key(payload)
    fields = {name: payload[name] for name in identity if name in payload}
    if not fields:
        raise UsageError(
            f"A job has none of the fields that make it different ({', '.join(identity)}). Add one of them to its "
            "payload, or name others as the identity"
        )
    if isinstance(url, str) and "url" in fields:
        if len(fields) == 1:
            return url_key(url)
        fields["url"] = canonical_url(url)
    return payload_key(fields)


def payload_key(payload: JsonObject) -> str:
    """Return the SHA-256 of the payload's JSON with sorted keys: the key of a job without a URL."""
    try:
        return hashlib.sha256(msgspec.json.encode(payload, order="sorted")).hexdigest()
    except UNFIT as error:
        raise refusal(error, "A job's payload") from error
