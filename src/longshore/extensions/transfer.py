"""Transfer: adding jobs of another queue with their state, attempts and history."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import msgspec

from longshore.errors import UsageError
from longshore.job import Attempt, Job
from longshore.queue import Submitted
from longshore.stored import BIGGEST, MOST, check_instant, check_payload, check_seconds, check_texts, check_whole


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


def _check_job(job: Job) -> None:
    names = (job.run, job.kind, job.key, job.partition, job.host, job.worker or "")
    parent = () if job.parent is None else (job.parent.kind, job.parent.key)
    check_texts((*names, *parent), "its names")
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

        A claimed job arrives pending, because no worker holds it here; it keeps its epoch, so that the next claim
        raises it. A pending job keeps its `not_before`. The jobs get ids of this queue, and their age is the order
        given. Jobs whose (run, kind, key) this queue knows already, or that repeat within the batch, are left out and
        counted as duplicates; the existing job is not changed. All or nothing, like every method of the contract.
        """
