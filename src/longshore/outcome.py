"""Outcomes: the result of one attempt, and the settlement that records it."""

from __future__ import annotations

from datetime import timedelta

import msgspec
from msgspec.structs import replace

from longshore.errors import Failure
from longshore.job import CameFrom, NewJob
from longshore.lease import Lease
from longshore.stored import BIGGEST, Json, check_duration, check_seconds, check_texts, check_whole


class Completed(msgspec.Struct, frozen=True, tag="completed"):
    """A success. The result and the follow-on jobs become visible together with the settlement, or not at all.

    `result` is any JSON value; a `msgspec.Raw` is JSON that is already encoded.
    """

    result: Json = None
    jobs: tuple[NewJob, ...] = ()


def skipped(why: str) -> Completed:
    """Return the outcome of a job that was passed over on purpose. A handler may return `{"skipped": why}`, too."""
    return Completed(msgspec.Raw(msgspec.json.encode({"skipped": why})))


def is_skipped(result: object) -> bool:
    """Return whether this result of a job says that it was skipped."""
    if isinstance(result, msgspec.Raw):
        return bytes(result).startswith(b'{"skipped":')
    return isinstance(result, dict) and list(result) == ["skipped"]


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """A failure. If it is retryable and attempts are left, the job is pending again; otherwise the job fails.

    `max_attempts`, if given, replaces the job's own limit from now on: the handler overrides the submitter.
    """

    failure: Failure
    retry_in: timedelta = timedelta(0)
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        check_duration(self.retry_in, "The time until a retry")
        if self.max_attempts is not None:
            check_whole(self.max_attempts, 1, BIGGEST, "A failure's max_attempts")


class Snoozed(msgspec.Struct, frozen=True, tag="snoozed"):
    """A postponement: the job is pending again after `delay`. Costs no attempt."""

    delay: timedelta

    def __post_init__(self) -> None:
        check_duration(self.delay, "The delay of a snooze")


class Released(msgspec.Struct, frozen=True, tag="released"):
    """A job given back without work on it: pending again at once. Costs no attempt."""


Outcome = Completed | Failed | Snoozed | Released


class Settlement(msgspec.Struct, frozen=True):
    """An outcome, and the lease under which the attempt ran."""

    lease: Lease
    outcome: Outcome
    seconds: float | None = None
    """The duration of the attempt."""
    came_from: tuple[CameFrom, ...] = ()
    """For an attempt that completed the job in another queue: what the job is to have as `came_from`."""
    handler_version: str = ""
    """For a completed attempt, a short fingerprint of the handler file that made it. A failure has its own."""

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check_seconds(self.seconds, "The seconds of an attempt")
        version = self.handler_version
        # Every settlement of a worker comes through here, and a fingerprint is plain.
        if version and not (type(version) is str and version.isascii()):
            check_texts((version,), "The version of a handler file")

    def made_by(self, handler_version: str) -> Settlement:
        """Return this settlement as one of an attempt that this version of the handler file made."""
        outcome = self.outcome
        if handler_version and isinstance(outcome, Completed):
            return replace(self, handler_version=handler_version)
        if handler_version and isinstance(outcome, Failed):
            failure = replace(outcome.failure, handler_version=handler_version)
            return replace(self, outcome=replace(outcome, failure=failure))
        return self
