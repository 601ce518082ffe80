"""Transfer: adding jobs of another queue with their state, attempts and history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from longshore.errors import UsageError
from longshore.job import Attempt, CameFrom, Job
from longshore.queue import Submitted
from longshore.stored import BIGGEST, MOST, check_instant, check_payload, check_seconds, check_texts, check_whole

_decode_came_from = msgspec.json.Decoder(tuple[CameFrom, ...]).decode
MOST_QUEUES = 50
"""The number of queues that a job remembers: those it came through last, and the one that it was submitted to."""


class Carried(msgspec.Struct, frozen=True):
    """A job of another queue with its history, oldest attempt first.

    Raise `UsageError` for a job that some medium could not store. Payload and result are checked by `take_over`.
    """

    job: Job
    history: tuple[Attempt, ...] = ()

    def __post_init__(self) -> None:
        job = self.job
        try:
            _check_job(job)
            _check_history(job, self.history)
        except UsageError as error:
            name = f"{job.run}/{job.kind}/{job.key}"
            raise UsageError(f"The job {name!a} cannot be taken over: {error}") from None

    @property
    def came_from(self) -> tuple[CameFrom, ...]:
        """The queues through which the job comes to the queue that takes it over. Empty for a job without an id."""
        job = self.job
        return passed_on(job, job.epoch) if job.id else ()


def passed_on(job: Job, here: int) -> tuple[CameFrom, ...]:
    """Return `came_from` for the job that `job` becomes in another queue, which has the epoch `here` there."""
    last = CameFrom(job.queue, job.id, job.epoch, here)
    passed = (last, *job.came_from)
    return passed if len(passed) <= MOST_QUEUES else (*passed[: MOST_QUEUES - 1], passed[-1])


def encode_came_from(came_from: tuple[CameFrom, ...]) -> bytes | None:
    """Return `came_from` as JSON; None for a job that was submitted to the queue itself."""
    return msgspec.json.encode(came_from) if came_from else None


def decode_came_from(stored: bytes | str | None) -> tuple[CameFrom, ...]:
    """Return what `encode_came_from` made JSON of."""
    return () if stored is None else _decode_came_from(stored)


def _check_job(job: Job) -> None:
    names = (job.run, job.kind, job.key, job.partition, job.host, job.worker or "")
    parent = () if job.parent is None else (job.parent.kind, job.parent.key)
    passed = [text for each in job.came_from for text in (each.queue, each.job)]
    check_texts((*names, *parent, job.id, job.queue, job.handler_version, *passed), "its names")
    for each in job.came_from:
        check_whole(each.epoch, 0, MOST, "its epoch in another queue")
        check_whole(each.here, 0, MOST, "its epoch in another queue")
    check_payload(job.payload, "its payload")
    check_whole(job.priority, -BIGGEST, BIGGEST, "its priority")
    check_whole(job.max_attempts, 1, BIGGEST, "its max_attempts")
    check_whole(job.epoch, 0, MOST, "its epoch")
    check_whole(job.attempts, 0, MOST, "its attempts")
    check_whole(job.depth, 0, MOST, "its depth")
    check_instant(job.submitted_at, "its submitted_at")
    for name, instant in (("not_before", job.not_before), ("settled_at", job.settled_at)):
        if instant is not None:
            check_instant(instant, f"its {name}")
    if job.seconds is not None:
        check_seconds(job.seconds, "its seconds")


def _check_history(job: Job, history: tuple[Attempt, ...]) -> None:
    for attempt in history:
        check_texts((attempt.worker,), "the worker of an attempt")
        check_whole(attempt.epoch, 1, MOST, "the epoch of an attempt")
        check_instant(attempt.ended_at, "the end of an attempt")
        if attempt.seconds is not None:
            check_seconds(attempt.seconds, "the seconds of an attempt")
    epochs = [attempt.epoch for attempt in history]
    if epochs != sorted({*epochs}) or (epochs and epochs[-1] > job.epoch):
        raise UsageError(f"the epochs of its history ({epochs}) do not rise from 1 to its own ({job.epoch})")


@runtime_checkable
class TakesOver(Protocol):
    """Offered by a queue with the trait `takes_over`."""

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        """Add jobs as they are: state, epoch, attempts, instants, result, failure, history, parent and depth included.

        A job remembers in `came_from` which job of which queue it was, so that it keeps its life and its records.

        A claimed job arrives pending, because no worker holds it here; it keeps its epoch, so that the next claim
        raises it. A pending job keeps its `not_before`. The jobs get ids of this queue, and their age is the order
        given. Jobs whose (run, kind, key) this queue knows already, or that repeat within the batch, are left out and
        counted as duplicates; the existing job is not changed. All or nothing, like every method of the contract.
        """
