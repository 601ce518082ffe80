"""Repair of a settlement that could not be written at the first try."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.errors import Failure, ProcessingError, QueueError, UsageError
from longshore.job import State
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Queue, Selection
from longshore.settlement.weight import described
from longshore.stored import UNFIT

REFUSALS = (UsageError, *UNFIT)
"""The errors by which `settle` refuses a value of one outcome. Any other error says nothing about the job."""

_UNSTORABLE = "the outcome cannot be stored in this queue"


async def reconsidered(queue: Queue, settlements: Sequence[Settlement], accepted: Sequence[bool]) -> list[bool]:
    """Return which settlements of a repeated call were accepted, by this call or by one before it.

    A refusal may mean that an earlier call was written and only its answer was lost. If the queue does not answer, the
    refusal stands: then only the caller's count is wrong.
    """
    refused = frozenset(s.lease.job.id for s, ok in zip(settlements, accepted, strict=True) if not ok)
    if not refused:
        return list(accepted)
    try:
        jobs = {job.id: job for job in await queue.jobs(Selection(ids=refused), limit=len(refused))}
    except QueueError:
        return list(accepted)
    verdicts = []
    for settlement, ok in zip(settlements, accepted, strict=True):
        job, outcome = jobs.get(settlement.lease.job.id), settlement.outcome
        if not ok and job is not None and job.epoch == settlement.lease.epoch:
            completed = isinstance(outcome, Completed) and job.state is State.COMPLETED
            ok = completed or (isinstance(outcome, Failed) and job.failure == outcome.failure)  # noqa: PLW2901
        verdicts.append(ok)
    return verdicts


def too_heavy(settlement: Settlement, error: Exception) -> Settlement:
    """Return a settlement to write instead of one that the medium cannot write in time, even alone."""
    fault = ProcessingError(
        f"the outcome is too heavy for this queue: {described(settlement)} ({error}). "
        "Return fewer follow-on jobs at once: divide them among several jobs",
        retryable=False,
    )
    return _instead(settlement, Failure.of(fault))


def unstorable(settlement: Settlement, error: Exception) -> Settlement:
    """Return a settlement to write instead of one that the medium cannot store: a failure that says so.

    If that cannot be stored either, the next call returns it in ASCII. Raise `error` if the settlement is that already.
    """
    fault = ProcessingError(f"{_UNSTORABLE}: {error}", retryable=False)
    fault.__cause__ = error
    failure = Failure.of(fault)
    if isinstance(settlement.outcome, Failed):
        before = settlement.outcome.failure
        if before == failure or before.message[1:].startswith(_UNSTORABLE):
            raise error
        failure = Failure(failure.error_type, ascii(failure.message), retryable=False)
    return _instead(settlement, failure)


def _instead(settlement: Settlement, failure: Failure) -> Settlement:
    return Settlement(settlement.lease, Failed(failure), settlement.seconds).made_by(settlement.handler_version)
