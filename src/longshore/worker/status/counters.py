"""The counts of a worker, its exit codes and its final report."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Sequence
from enum import IntEnum

import msgspec
import structlog

from longshore.errors import QueueError
from longshore.extensions.claim_stats import ClaimStats
from longshore.extensions.find import find
from longshore.lease import Lease
from longshore.observe.histogram import ATTEMPT_BOUNDS, WAIT_BOUNDS, Histogram
from longshore.observe.statistics import final_statistics, per_hour
from longshore.outcome import Completed, Failed, Settlement, Snoozed
from longshore.queue import Queue

_ANSWER_SECONDS = 2.0
"""How long the queue may take to return the claim success rate: the worker does not wait longer to end."""

log = structlog.get_logger()


class Exit(IntEnum):
    """The exit codes of a worker."""

    OK = 0
    """A limit was reached, the run is finished, or a signal drained it."""
    FAILED = 1
    """The queue cannot be used any more, or the system failed."""
    USAGE = 2
    """The command or its settings cannot be carried out."""
    BLOCKED = 3
    """An async handler blocked the event loop past its timeout, and the worker had to leave."""
    REPLACED = 4
    """The published code of the worker is no longer the right version; the worker drained."""
    INTERRUPTED = 130
    """A second Ctrl-C: all jobs in flight were given back."""


class Verdicts(msgspec.Struct):
    """The settlements of one batch, by outcome."""

    completed: list[Settlement] = []
    failed: list[tuple[Settlement, bool]] = []
    """Each with whether the job will be tried again."""
    refused: list[Settlement] = []
    """Their lease was gone."""
    seconds: float = 0.0
    """The total time of the attempts."""


class WorkerCounters(msgspec.Struct):
    """A worker's running counts."""

    claimed: int = 0
    completed: int = 0
    failed: int = 0
    """Jobs that failed for good."""
    retried: int = 0
    """Attempts that failed and whose job is tried again."""
    snoozed: int = 0
    released: int = 0
    stale: int = 0
    lost_races: int = 0
    errors_in_a_row: int = 0
    busy_seconds: float = 0.0
    renewals: int = 0
    failed_renewals: int = 0
    returned: int = 0
    """Expired leases of other workers that this one took back; their jobs are pending again."""
    exhausted: int = 0
    """The same, of jobs that had no attempt left."""
    attempt_seconds: Histogram = msgspec.field(default_factory=lambda: Histogram.of(ATTEMPT_BOUNDS))
    """How long the attempts took that completed or failed."""
    wait_seconds: Histogram = msgspec.field(default_factory=lambda: Histogram.of(WAIT_BOUNDS))
    """How long jobs waited until their first claim; empty if the queue has no clock of its own."""

    @property
    def ended(self) -> int:
        """Attempts that completed or failed."""
        return self.finished + self.retried

    @property
    def finished(self) -> int:
        """Jobs that completed or failed for good."""
        return self.completed + self.failed

    def count_claimed(self, leases: Sequence[Lease], lease_seconds: float, *, one_clock: bool) -> None:
        """Count claimed jobs. With `one_clock`, the queue has dated submission and lease by the same clock."""
        self.claimed += len(leases)
        if not one_clock:
            return
        buckets, total = self.wait_seconds.buckets, 0.0
        for lease in leases:
            job = lease.job
            if job.epoch == 1:
                waited = lease.deadline - lease_seconds - job.submitted_at
                buckets[bisect_left(WAIT_BOUNDS, waited)] += 1
                total += waited
        self.wait_seconds.total += max(total, 0.0)  # the wall clock may have been set back

    def count(self, settlements: Sequence[Settlement], accepted: Sequence[bool]) -> Verdicts:
        """Add a settled batch, and return it sorted by outcome."""
        verdicts, buckets = Verdicts(), self.attempt_seconds.buckets
        for settlement, ok in zip(settlements, accepted, strict=True):
            outcome = settlement.outcome
            if not ok:
                verdicts.refused.append(settlement)
                continue
            if type(outcome) is Completed:
                verdicts.completed.append(settlement)
                self.errors_in_a_row = 0
            elif type(outcome) is Failed:
                job = settlement.lease.job
                again = outcome.failure.retryable and job.attempt < (outcome.max_attempts or job.max_attempts)
                verdicts.failed.append((settlement, again))
                self.retried += again
                self.failed += not again
                self.errors_in_a_row += 1
            elif type(outcome) is Snoozed:
                self.snoozed += 1
            else:
                self.released += 1
            if (seconds := settlement.seconds) is not None:
                verdicts.seconds += seconds
                buckets[bisect_left(ATTEMPT_BOUNDS, seconds)] += 1
        self.attempt_seconds.total += verdicts.seconds
        self.completed += len(verdicts.completed)
        self.stale += len(verdicts.refused)
        self.busy_seconds += verdicts.seconds
        return verdicts


class WorkerReport(msgspec.Struct, frozen=True, kw_only=True):
    """The final report of a worker."""

    worker: str
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    """Jobs that failed for good."""
    retried: int = 0
    """Attempts that failed and whose job is tried again."""
    snoozed: int = 0
    released: int = 0
    """Jobs given back without an outcome."""
    stale: int = 0
    """Jobs whose lease was lost: their outcomes here were discarded."""
    lost_races: int = 0
    """How often there was work and another worker was faster."""
    started: float
    """Seconds since 1970."""
    ended: float
    seconds: float
    """The runtime."""
    reason: str
    exit_code: int
    target: int | None = None
    """The number of finished jobs after which it was to stop; None without a limit."""
    claim_success_rate: float | None = None
    """The rate of the whole queue when the worker ended; None if the queue does not count it."""

    @property
    def per_hour(self) -> float:
        """Jobs per hour that completed or failed for good."""
        return per_hour(self.completed + self.failed, self.seconds)

    @property
    def share(self) -> float | None:
        """The reached share of the target, from 0 to 1. Only finished jobs count, as they do for the target."""
        return (self.completed + self.failed) / self.target if self.target else None

    @property
    def summary(self) -> str:
        """The final statistics in one line."""
        notes = [f"{self.released:,} given back"] if self.released else []
        notes += [f"{self.stale:,} {'lease' if self.stale == 1 else 'leases'} lost"] if self.stale else []
        notes += [] if self.claim_success_rate is None else [f"claim success rate {self.claim_success_rate:.1%}"]
        counts = final_statistics(
            completed=self.completed, failed=self.failed, retried=self.retried, seconds=self.seconds, notes=notes
        )
        return counts if self.share is None else f"{counts}, {self.share:.0%} of the target of {self.target:,}"


async def claim_success_rate(queue: Queue) -> float | None:
    """That of the queue; None if the queue does not count races, or does not answer soon enough."""
    claim_stats = find(queue, ClaimStats)
    if claim_stats is None:
        return None
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            return await claim_stats.claim_success_rate()
    except (QueueError, TimeoutError) as error:
        log.info("The claim success rate is not known", error=str(error) or "the queue does not answer")
        return None
