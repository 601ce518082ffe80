"""The contract: the promises that every medium keeps, whatever it stores jobs in.

The promises
    1. A submitted job is never lost, no matter which process dies.
    2. A job may be executed more than once; it is settled exactly once. A settlement with a stale epoch, or by a worker
       that does not hold the job, changes nothing: not the job, not its result, not its follow-on jobs. The result and
       the follow-on jobs become visible together with the settlement, or not at all.
    3. Submitting the same (run, kind, key) again changes nothing and is counted as a duplicate.
    4. Nothing is locked while a handler runs. No worker waits for another.
    5. One clock judges leases: the medium's own clock or, if the machines share none, the observer's monotonic clock.
    6. Recovery needs no person: every call of `reap`, by any process, brings back the jobs that dead workers held.

Death in the middle
    Every method is all or nothing: a process that dies in the middle of a call leaves the queue as if the call had
    never been made, or as if it had been made completely. `retry`, `cancel`, `release` and `prune` promise this for
    each job: over very many jobs they may work in parts, and another call does the rest.

No answer
    Every method may raise `QueueUnavailableError`. The caller then does not know which of the two happened, and may
    call again: `submit` and `settle` are safe to repeat, and `renew` reports the leases of a claim without an answer.

Refusal
    A value that not every medium could store (text with lone surrogates, JSON that cannot be read back, a number or
    instant out of bounds; see `stored`) is refused with a `UsageError` that names it, when it is made or before
    anything is written.

Names
    A queue gets a random uuid at birth and keeps it; every job that it returns has it in `Job.queue`. The id of a job
    is never given to another job of the queue. So queue, id and epoch name an attempt among those of all queues, and
    what is stored outside of the queue (records, pages) goes by these names.

A medium stays bare: retry, tracing and metrics wrap a queue from outside (see `wrappers`). Each difference between
media is a trait. Capabilities beyond the contract are extensions (see `extensions`).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Literal, Protocol

import msgspec

from longshore.errors import Failure, UsageError
from longshore.job import Attempt, Job, NewJob, State, number_of
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Settlement
from longshore.stored import BIGGEST, check_duration, check_texts, check_whole


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How a medium differs from others. The suite, the worker and the commands ask for traits, never for its name."""

    name: str
    spans_processes: bool
    """Several processes can open the same URL and share the queue."""
    spans_machines: bool
    """Several machines can share the queue."""
    wakes: bool
    """`wait` returns soon after work appears, instead of only after its timeout."""
    takes_over: bool = False
    """It can add jobs of another queue with their state and history; see `extensions.transfer`."""
    tracks_presence: bool = False
    """It knows which workers are alive; see `extensions.presence`."""
    archives: bool = False
    """It can pack completed jobs into an archive; see `extensions.archive`."""
    counts_lost_claims: bool = False
    """It knows how many claims were lost to faster workers; see `extensions.claim_stats`."""
    shares_state: bool = False
    """It keeps small entries that everything sharing the queue reads and writes; see `extensions.shared_state`."""
    quick_shared_state: bool = False
    """An entry is read or written within milliseconds, so that values which change many times a second can be one."""
    one_clock: bool = False
    """All its instants come from one clock, so that they can be compared: the wait of a job can be measured."""
    finds_payloads: bool = False
    """It finds the payloads of jobs by their names; see `extensions.payloads`."""
    keeps_limits: bool = False
    """It keeps pauses and the limits of runs itself, for every worker; wrappers leave both to it."""
    keeps_rejected: bool = False
    """It moves files in the place of its jobs that are not jobs away, for a person; see `extensions.rejected`."""
    keeps_traces: bool = False
    """It keeps the records, pages and failure bundles of its workers; see `extensions.traces`."""


class Submitted(msgspec.Struct, frozen=True):
    """The result of a submission. `new + duplicates` is the number of jobs given."""

    new: int
    duplicates: int


class SettleAnswers(list[bool]):
    """The answers of `settle`, from a medium that also knows which follow-on jobs it left out.

    Other media return a plain list.
    """

    def __init__(self, accepted: Iterable[bool], duplicates: Sequence[NewJob]) -> None:
        super().__init__(accepted)
        self.duplicates = duplicates
        """The follow-on jobs of accepted settlements whose names were taken, each with the run that it was for."""


class Reaped(msgspec.Struct, frozen=True):
    """The result of a reap: jobs that went back to pending, and jobs that had no attempt left and failed."""

    returned: int = 0
    failed: int = 0


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """The number of jobs of one run, kind and partition in each state. A job has one state, so the sum is all jobs."""

    run: str = ""
    kind: str = ""
    partition: str = ""
    pending: int = 0
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    cancelled: int = 0

    @property
    def remaining(self) -> int:
        """The number of jobs that are not finished."""
        return self.pending + self.claimed

    @property
    def total(self) -> int:
        return self.pending + self.claimed + self.completed + self.failed + self.cancelled


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs for which every given condition holds; all jobs if none is given."""

    run: str | None = None
    ids: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    states: frozenset[State] | None = None
    error: str | None = None
    """A shell pattern (`Timeout*`), compared without regard to case with the type of the last failure, the name of its
    exception (with and without its module) and its message."""
    older_than: timedelta | None = None
    """A finished job was settled, any other job submitted, at least this long ago by the medium's clock."""

    def __post_init__(self) -> None:
        names = (*(self.ids or ()), *(self.kinds or ()), *(self.partitions or ()))
        check_texts((self.run or "", self.error or "", *names), "The texts of a selection")
        if self.older_than is not None:
            check_duration(self.older_than, "The age of a selection")

    def matches(self, job: Job, now: float) -> bool:
        """Return whether the selection has this job at the instant `now` of the medium's clock."""
        # A number, since a file that others have edited may have times that no calendar has.
        age = round(now - (job.settled_at or job.submitted_at), 6)
        return (
            (self.run is None or job.run == self.run)
            and (self.ids is None or job.id in self.ids)
            and (self.kinds is None or job.kind in self.kinds)
            and (self.partitions is None or job.partition in self.partitions)
            and (self.states is None or job.state in self.states)
            and (self.older_than is None or age >= self.older_than.total_seconds())
            and self.matches_error(job.failure)
        )

    def matches_error(self, failure: Failure | None) -> bool:
        """Return whether `error` selects a job whose last failure is this one."""
        if self.error is None or failure is None:
            return self.error is None
        names = (failure.error_type, failure.exception, failure.exception_name, failure.message)
        return any(fnmatchcase(name.lower(), self.error.lower()) for name in names)


class Queue(Protocol):
    """Jobs, and the workers that hold them. Every method takes a batch: a list of one is a batch."""

    traits: Traits

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        """Add jobs. Every process may call it.

        A job whose (run, kind, key) the queue knows already, finished or not, or that repeats one of the batch, is left
        out and counted as a duplicate; the existing job is not changed. The age of jobs is the order of submission.
        Repeating a call whose answer was lost is safe: its jobs are duplicates then.
        """

    async def claim(self, want: Want) -> list[Lease]:
        """Take up to `want.limit` pending jobs that match `want`. Only a live worker calls it.

        Order: lower priority first; among equal priorities the hosts take turns, so that a host with a million jobs
        does not delay one with ten; within a host, oldest first. Which host begins is not specified. Jobs whose
        `not_before` is in the future and jobs of `want.without_hosts` are skipped, and skipping many costs nothing. No
        two callers ever get the same claim of a job, and callers never wait for each other longer than a short
        transaction. Each claim raises the job's epoch, and renews all leases of the worker. An empty list means that
        nothing can be claimed now. If the answer is lost, the jobs are claimed: `renew` reports them.
        """

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        """Extend all leases of a worker to `lease` from now, and return what it holds. Only that worker calls it.

        It is one write, whatever the number of leases. A lease that the worker knows and the answer lacks is lost
        (expired and reaped, or cancelled): the worker must stop working on the job. A lease that the answer has and the
        worker does not know comes from a claim whose answer was lost: the worker should release it.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Write outcomes, each guarded by its lease. Only the holder of the leases calls it.

        Return for each settlement, in order, whether it was accepted. A settlement is refused, and nothing of it is
        written, if the job is not claimed, has another epoch, or is held by another incarnation of a worker than the
        one in the lease. The epoch alone is not enough: after a backup is restored, the next claim gives another worker
        the epoch that a lease from before has. An accepted one moves the job (see `outcome`), counts
        the attempt if the outcome counts one, adds a failure to the job's history, and submits the follow-on jobs into
        the run of the job, with the job as their parent: all at once. Settling again is refused, so repeating a call
        whose answer was lost is safe. A medium may return `SettleAnswers`, which spares others a lookup.
        """

    async def reap(self) -> Reaped:
        """Take back the jobs of workers that have not renewed for a lease length. Every process may call it, anytime.

        Each of these jobs counts one attempt, with a failure of type `crash` in its history that names the worker. It
        goes back to pending, or to failed if that was its last attempt.
        """

    async def stats(self, run: str | None = None) -> list[Count]:
        """Return the number of jobs in each state for each run, kind and partition, ordered. Every process may call it.

        It must cost far less than reading all jobs.
        """

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        """Return a page of the selected jobs, oldest first. Every process may call it.

        `after` is the id of the last job of the page before. Raise `UsageError` if `after` was never an id, or if
        `limit` is negative.
        """

    async def history(self, job_id: str) -> list[Attempt]:
        """Return the failed and expired attempts of a job, oldest first; an empty list for an unknown job."""

    async def retry(self, selection: Selection) -> int:
        """Make the selected failed and cancelled jobs pending now, with all their attempts. Return how many.

        Every process may call it, for a person. Jobs in other states are skipped. Epoch and history are kept.
        """

    async def cancel(self, selection: Selection) -> int:
        """Cancel the selected pending and claimed jobs. Return how many. Every process may call it, for a person.

        A worker that holds one learns of it with its next renewal; its settlement is refused.
        """

    async def release(self, selection: Selection) -> int:
        """Make the selected claimed jobs pending now; no attempt counts. Return how many.

        Every process may call it, for a person. Jobs in other states are skipped. A worker that holds one learns of it
        with its next renewal; its settlement is refused.
        """

    async def prune(self, selection: Selection) -> int:
        """Remove the selected finished jobs with their results and history. Return how many.

        Every process may call it, for a person. Pending and claimed jobs are never removed. A pruned key may be
        submitted again.
        """

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        """Return True as soon as there may be a job to claim, or False after `timeout`. Only a live worker calls it.

        It is a hint: another worker may have taken the job before the caller claims. Waiting costs next to nothing.
        """

    async def close(self) -> None:
        """Close files and connections. Leases stay as they are. Closing twice is harmless."""


def page_start(after: str, limit: int) -> int:
    """Return the number of the job `after`, for media that number their jobs. Raise `UsageError` as `jobs` does."""
    check_whole(limit, 0, BIGGEST, "The size of a page")
    if after and not number_of(after):
        raise UsageError(f"A page cannot begin after {ascii(after)[:50]}: that is no id of a job")
    return number_of(after)


async def each_job(queue: Queue, selection: Selection, *, page: int = 1000) -> AsyncIterator[Job]:
    """Yield the selected jobs, oldest first, read page by page so that memory stays bounded."""
    async for found in each_page(queue, selection, page=page):
        for job in found:
            yield job


async def each_page(queue: Queue, selection: Selection, *, page: int = 1000) -> AsyncIterator[list[Job]]:
    """Yield the selected jobs as `each_job` does, in lists of at most `page`."""
    after = ""
    while found := await queue.jobs(selection, after=after, limit=page):
        yield found
        after = found[-1].id


def totals_by(counts: Sequence[Count], field: Literal["run", "kind", "partition"]) -> list[Count]:
    """Return the sums of the counts that share a run, a kind or a partition, in their order."""
    found = dict.fromkeys(getattr(count, field) for count in counts)
    return [
        msgspec.structs.replace(totals([count for count in counts if getattr(count, field) == each]), **{field: each})
        for each in found
    ]


def totals(counts: Sequence[Count]) -> Count:
    """Return the sum of all counts."""
    return Count(
        pending=sum(c.pending for c in counts),
        claimed=sum(c.claimed for c in counts),
        completed=sum(c.completed for c in counts),
        failed=sum(c.failed for c in counts),
        cancelled=sum(c.cancelled for c in counts),
    )
