"""Outcomes: a handler's verdict on one attempt, and the settlement that writes it down."""

from __future__ import annotations

from datetime import timedelta

import msgspec

from longshore.errors import Failure
from longshore.job import NewJob
from longshore.lease import Lease
from longshore.stored import BIGGEST, Json, check_duration, check_seconds, check_whole


class Completed(msgspec.Struct, frozen=True, tag="completed"):
    """Done. The result and the follow-on jobs become visible together with the settlement, or not at all.

    `result` is anything JSON can say; a `msgspec.Raw` is taken as JSON already encoded.
    """

    result: Json = None
    jobs: tuple[NewJob, ...] = ()


class Failed(msgspec.Struct, frozen=True, tag="failed"):
    """It went wrong. A retryable failure goes back to pending while attempts are left, otherwise the job fails.

    `max_attempts`, where given, replaces the job's own limit from now on: the handler knows better than the submitter.
    """

    failure: Failure
    retry_in: timedelta = timedelta(0)
    max_attempts: int | None = None

    def __post_init__(self) -> None:
        check_duration(self.retry_in, "The time until a retry")
        if self.max_attempts is not None:
            check_whole(self.max_attempts, 1, BIGGEST, "A failure's max_attempts")


class Snoozed(msgspec.Struct, frozen=True, tag="snoozed"):
    """Not now: pending again after `delay`. Costs no attempt."""

    delay: timedelta

    def __post_init__(self) -> None:
        check_duration(self.delay, "The delay of a snooze")


class Released(msgspec.Struct, frozen=True, tag="released"):
    """Given back untouched: pending again at once. Costs no attempt."""


Outcome = Completed | Failed | Snoozed | Released


class Settlement(msgspec.Struct, frozen=True):
    """An outcome with the lease that entitles to it."""

    lease: Lease
    outcome: Outcome
    seconds: float | None = None
    """How long the attempt took."""

    def __post_init__(self) -> None:
        if self.seconds is not None:
            check_seconds(self.seconds, "The seconds of an attempt")
