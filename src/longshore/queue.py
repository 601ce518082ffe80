"""The contract: what every medium promises, whatever it is made of.

The promise
    1. A submitted job is never lost, whatever dies.
    2. It may be executed more than once; it is settled exactly once. A stale epoch changes nothing: not the job, not
       its result, not its follow-on jobs. Those become visible together with the settlement, or not at all.
    3. Submitting the same (run, kind, key) again is a no-op that is counted.
    4. Nothing is locked while a handler runs. No worker waits for another.
    5. Leases are judged by one clock: the medium's own, or, where machines share none, the observer's monotonic clock.
    6. Recovery needs no hand: whoever calls `reap` brings back what dead workers held.

Every method is all or nothing: a process that dies in the middle of one leaves the queue as if the call had never been
made, or as if it had been made whole. `retry`, `cancel` and `prune` are so for each job: over very many they may work
in parts, and calling again does the rest. Every method may raise `QueueUnavailableError`, after which the caller does
not know which of the two happened and may call again: `submit` and `settle` are safe to repeat by construction, and
what a lost `claim` took comes to light in `renew`.

A value that not every medium could keep (text with lone surrogates, JSON that cannot be read back, a number or instant
out of bounds; see `stored`) is refused by a `UsageError` that names it, as it is made or before anything is written.

A medium stays bare: retry, tracing and metrics wrap a queue from outside. A difference between media is a trait.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from datetime import timedelta
from fnmatch import fnmatchcase
from typing import Protocol

import msgspec

from longshore.errors import Failure, UsageError
from longshore.job import Attempt, Job, NewJob, State, number_of
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Settlement
from longshore.stored import BIGGEST, check_duration, check_texts, check_whole


class Traits(msgspec.Struct, frozen=True, kw_only=True):
    """How media differ. The conformance suite, the worker and the command line ask these, never the medium's name."""

    name: str
    spans_processes: bool
    """Several processes may open the same URL and share the queue."""
    spans_machines: bool
    """Several machines may."""
    wakes: bool
    """`wait` returns soon after work appears, rather than only after its timeout."""
    takes_over: bool = False
    """Jobs of another queue can be brought in as they are; see `transfer`."""
    keeps_roll: bool = False
    """It knows which workers are alive; see `roll`."""
    archives: bool = False
    """Completed jobs can be packed away; see `archive`."""
    counts_races: bool = False
    """It knows how many claims were lost to faster workers; see `races`."""
    keeps_notes: bool = False
    """It has shelves for small notes that all who share the queue read and write; see `notes`."""
    quick_notes: bool = False
    """A note is read or written within milliseconds, so that what changes many times a second can be one."""
    sets_aside: bool = False
    """What lies in the place of a job and is none is put elsewhere, for a person to look at; see `rejects`."""


class Submitted(msgspec.Struct, frozen=True):
    """What a submission did. `new + duplicates` is the number of jobs given."""

    new: int
    duplicates: int


class Reaped(msgspec.Struct, frozen=True):
    """What a reap did: jobs that went back to pending, and jobs that had no attempt left and failed."""

    returned: int = 0
    failed: int = 0


class Count(msgspec.Struct, frozen=True, kw_only=True):
    """How many jobs of one run, kind and partition stand where. One of a job's states holds it, so the sum is all."""

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
        """What is not finished yet."""
        return self.pending + self.claimed

    @property
    def total(self) -> int:
        return self.pending + self.claimed + self.completed + self.failed + self.cancelled


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs are meant. Every condition that is given must hold; none given means all."""

    run: str | None = None
    ids: frozenset[str] | None = None
    kinds: frozenset[str] | None = None
    partitions: frozenset[str] | None = None
    states: frozenset[State] | None = None
    error: str | None = None
    """A shell pattern (`Timeout*`), compared without case to the last failure's type, its exception's name (with and
    without its module) and its message."""
    older_than: timedelta | None = None
    """Submitted, or where finished settled, at least this long ago by the medium's clock."""

    def __post_init__(self) -> None:
        names = (*(self.ids or ()), *(self.kinds or ()), *(self.partitions or ()))
        check_texts((self.run or "", self.error or "", *names), "What a selection asks for")
        if self.older_than is not None:
            check_duration(self.older_than, "The age of a selection")

    def matches_error(self, failure: Failure | None) -> bool:
        """Whether a job whose last failure is this one is meant, as far as `error` says."""
        if self.error is None or failure is None:
            return self.error is None
        names = (failure.error_type, failure.exception, failure.exception_name, failure.message)
        return any(fnmatchcase(name.lower(), self.error.lower()) for name in names)


class Queue(Protocol):
    """Jobs, and who holds them. Batch forms only: a list of one is a batch."""

    traits: Traits

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        """Add jobs. Anyone may call it.

        Jobs whose (run, kind, key) is already known, finished or not, or that repeat within the batch, are left out and
        counted as duplicates; the job that is there is not changed. Age is the order of submission.
        """

    async def claim(self, want: Want) -> list[Lease]:
        """Take up to `want.limit` pending jobs that match. Only a live worker calls it.

        Order: priority, lower first; among equals hosts take turns, so that a host with a million jobs does not keep
        one with ten waiting; of one host, age. Where the turns begin is open. Jobs with `not_before` in the future and
        jobs of `want.without_hosts` are passed over, and it costs nothing to pass over many. No two callers ever get
        the same claim of a job; callers never wait for one another longer than a short transaction. Each claim raises
        the job's epoch. Claiming counts as a renewal of everything the worker holds. An empty list means that
        nothing can be claimed now.
        """

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        """Extend all leases of a worker by the lease length from now, and say what it holds.

        One write, however many leases. What the worker believes to hold and is not in the answer is lost (expired and
        reaped, or cancelled): it must stop working on it. What is in the answer and the worker knows nothing of was
        claimed in a call whose answer got lost: it should be given back.
        """

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Write outcomes, each guarded by its lease. Only the holder calls it.

        The answer says for each, in order, whether it was accepted. It is refused when the job is not claimed, or not
        at this epoch: then nothing of it is written. Accepted ones move the job (see `outcome`), count the attempt
        where one counts, keep the failure in the job's history, and submit the follow-on jobs, with the settled one as
        their parent, into the job's own run, all at once. Settling the same thing again is refused, so repeating a call
        whose answer was lost is safe.
        """

    async def reap(self) -> Reaped:
        """Bring back what is held by workers that have not renewed for a lease length. Anyone may call it, at any time.

        Each such job counts one attempt, with a failure of type `crash` in its history that names the worker. It goes
        back to pending, or to failed if that was its last attempt.
        """

    async def stats(self, run: str | None = None) -> list[Count]:
        """How many jobs stand where, for each run, kind and partition; ordered. Costs nothing near O(jobs)."""

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        """A page of the jobs selected, oldest first. `after` is the id of the last job of the page before.

        Raises `UsageError` for an `after` that was never an id, and for a negative limit.
        """

    async def history(self, job_id: str) -> list[Attempt]:
        """The failed and expired attempts of a job, oldest first; empty for a job that is not there."""

    async def retry(self, selection: Selection) -> int:
        """Give failed and cancelled jobs that are selected all their attempts again: pending, now. Returns how many.

        Jobs in other states are passed over. The epoch and the history are kept.
        """

    async def cancel(self, selection: Selection) -> int:
        """Cancel pending and claimed jobs that are selected. Returns how many.

        A worker that holds one learns of it when it next renews; what it settles is refused.
        """

    async def prune(self, selection: Selection) -> int:
        """Remove finished jobs that are selected, with their results and history. Returns how many.

        Pending and claimed jobs are never removed. A key that was pruned may be submitted anew.
        """

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        """Return True as soon as there may be something to claim, or False after the timeout.

        A hint: work may have gone to another by the time the caller claims. A waiting worker costs next to nothing.
        """

    async def close(self) -> None:
        """Let go of files and connections. Leases stay as they are. Closing twice is harmless."""


def page_start(after: str, limit: int) -> int:
    """The number that a page begins behind, for `jobs` of media that number theirs. Raises `UsageError` as it says."""
    check_whole(limit, 0, BIGGEST, "The size of a page")
    if after and not number_of(after):
        raise UsageError(f"A page cannot begin after {ascii(after)[:50]}: that is no id of a job")
    return number_of(after)


async def each_job(queue: Queue, selection: Selection, *, page: int = 1000) -> AsyncIterator[Job]:
    """Every job selected, oldest first, read page by page so that memory stays bounded."""
    after = ""
    while found := await queue.jobs(selection, after=after, limit=page):
        for job in found:
            yield job
        after = found[-1].id


def totals(counts: Sequence[Count]) -> Count:
    """The sum over all."""
    return Count(
        pending=sum(c.pending for c in counts),
        claimed=sum(c.claimed for c in counts),
        completed=sum(c.completed for c in counts),
        failed=sum(c.failed for c in counts),
        cancelled=sum(c.cancelled for c in counts),
    )
