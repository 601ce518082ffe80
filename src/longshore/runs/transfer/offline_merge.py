"""Merge an offline checkout back: settle the outcomes of its jobs in the source, with the leases it holds.

Every settlement is fenced like any worker's. If a lease was lost meanwhile, the settlement is rejected, and nothing of
that job is written.

A checked-out job (an entry of the checkout file) is one attempt in the source, however often the job was tried in the
checkout; the last failure counts. A job that failed for good in the checkout fails for good in the source; a job that
waits for a retry waits in the source. Untouched jobs, and jobs cancelled in the checkout, are released.

Jobs that were created in the checkout follow the entry that they descend from, and only if its settlement was accepted.
Untouched children are part of the settlement itself. Children with a history of their own, and all their descendants,
are taken over in their state right after it; after a crash in between, merging again takes them over. Jobs that were
submitted to the checkout directly have no entry and are taken over in their state.

All of them obey the limits of their run (`--max-depth`, `--max-jobs`); those beyond are left out and counted. A pause
does not matter: the jobs were claimed before it.

Merged jobs are written to the checkout file, so that merging again changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from longshore.clock import Clock
from longshore.errors import UsageError
from longshore.extensions.transfer import passed_on
from longshore.job import Attempt, CameFrom, Job, NewJob, State
from longshore.lease import Held, Lease
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Queue, Selection, each_job
from longshore.runs.transfer.copy_jobs import Progress, carried, jobs_by_id, leases_of, taking_over
from longshore.runs.transfer.offline_checkout import CheckedOutJob, CheckoutFile, Merged
from longshore.wrappers.admission import Admission
from longshore.wrappers.worker_queue import WorkerQueue

BATCH = 200
"""Entries per settlement: each may have created many jobs."""

_LONGEST_DELAY = timedelta(days=366).total_seconds()

_Name = tuple[str, str, str]


class MergeResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a merge: numbers of entries that were still open, and of jobs created in the checkout."""

    completed: int = 0
    failed: int = 0
    retried: int = 0
    """Failed with attempts left: pending in the source again."""
    released: int = 0
    """Released untouched."""
    refused: int = 0
    """Their leases were lost. Nothing of them was written."""
    busy: int = 0
    """They or their descendants are still in flight in the checkout. Left unchanged."""
    created: int = 0
    """Jobs created in the checkout that are new in the source."""
    left_out: int = 0
    """Jobs created in the checkout that would exceed the limits of their run in the source. Left out."""
    orphans: int = 0
    """Jobs whose parents are no longer in the checkout. Left out."""
    merged_before: int = 0
    """Merged by an earlier merge."""

    def plus(self, **more: int) -> MergeResult:
        """Return a copy with some of the counts increased."""
        return msgspec.structs.replace(self, **{name: getattr(self, name) + number for name, number in more.items()})


async def merge(
    checkout: Queue, source: WorkerQueue, file: CheckoutFile, clock: Clock, *, progress: Progress
) -> MergeResult:
    """Merge a checkout back. Raise `UsageError` if it is from another queue. Safe to repeat at any time."""
    # Release jobs of dead workers in the checkout: there may be no other process left to reap them.
    await checkout.reap()
    contents = await _read_contents(checkout, file)
    if contents.descendants or contents.submitted or len(file.merged) < len(file.jobs):
        await _refuse_other_source(source, file)
    async with Admission(source, clock) as admission:
        done = await _Merging(checkout, source, file, clock, contents, admission).carry_out(progress)
    await source.tell()
    return done


async def _refuse_other_source(source: Queue, file: CheckoutFile) -> None:
    entries = list(file.jobs.values())
    # One known job is enough: others may have been pruned since. A copy of the source has the same names but older
    # epochs.
    for start in range(0, len(entries), BATCH):
        there = await jobs_by_id(source, [entry.id for entry in entries[start : start + BATCH]])
        known = [(job, file.jobs[job.id]) for job in there.values()]
        if any(_name(job) == entry.name and job.epoch >= entry.epoch for job, entry in known):
            return
    if entries:
        raise UsageError(
            f"This checkout was taken from {file.head.source}, and its jobs are not in the queue it is to be merged "
            "into. Name the queue it was taken from."
        )


class _Contents(msgspec.Struct, frozen=True):
    """The jobs of a checkout by the job they descend from. Only names and ids, because jobs may be large."""

    arrived: dict[_Name, str]
    """Entries whose jobs are in the checkout, with their ids there."""
    descendants: dict[_Name, list[str]]
    """Created jobs that are not merged yet, by the entry that they descend from, oldest first."""
    submitted: list[str]
    """Jobs submitted to the checkout directly and their descendants, as far as they are not merged yet."""
    busy: set[_Name]
    """Entries, and directly submitted jobs, of which a job is held by a worker of the checkout."""
    orphans: int
    """Jobs whose parents are gone, so that it is not known whether they belong in the source."""


async def _read_contents(checkout: Queue, file: CheckoutFile) -> _Contents:
    entries = {entry.name for entry in file.jobs.values()}
    arrived: dict[_Name, str] = {}
    descendants: defaultdict[_Name, list[str]] = defaultdict(list)
    submitted: list[str] = []
    busy: set[_Name] = set()
    orphans = 0
    # The root of each job: an entry, or a job that was submitted to the checkout.
    roots: dict[_Name, _Name] = {name: name for name in entries}
    # Oldest first: a parent comes before its children.
    async for job in each_job(checkout, Selection()):
        name = _name(job)
        if name in entries:
            arrived[name] = job.id
        elif job.parent is None:
            roots[name] = name
        elif (root := roots.get((job.run, job.parent.kind, job.parent.key))) is not None:
            roots[name] = root
        elif job.id not in file.created:
            orphans += 1
        if name in roots and job.state is State.CLAIMED:
            busy.add(roots[name])
        elif name in roots and name not in entries and job.id not in file.created:
            (descendants[roots[name]] if roots[name] in entries else submitted).append(job.id)
    return _Contents(arrived, descendants, submitted, busy, orphans)


class _Merging:
    def __init__(
        self,
        checkout: Queue,
        source: WorkerQueue,
        file: CheckoutFile,
        clock: Clock,
        contents: _Contents,
        admission: Admission,
    ) -> None:
        self._checkout = checkout
        self._source = source
        self._file = file
        self._clock = clock
        self._contents = contents
        self._admission = admission
        self._done = MergeResult(orphans=contents.orphans)
        self._held: set[Held] = set()

    async def carry_out(self, progress: Progress) -> MergeResult:
        worker, terms = self._file.head.worker, self._file.head.terms
        entries = list(self._file.jobs.values())
        waiting = [entry for entry in entries if entry.id not in self._file.merged]
        late = [
            entry for entry in entries if entry.id in self._file.completed and entry.name in self._contents.descendants
        ]
        names = {entry.name for entry in entries}
        self._done = self._done.plus(merged_before=len(entries) - len(waiting), busy=len(self._contents.busy - names))
        # Renew the leases of jobs that are still in flight in the checkout. Lost leases stay lost.
        self._held = set(await self._source.renew(worker, terms.hold))
        useless = self._held - {Held(entry.id, entry.epoch) for entry in waiting}
        for start in range(0, len(waiting), BATCH):
            await self._merge(waiting[start : start + BATCH])
            progress(self._done.merged_before + min(start + BATCH, len(waiting)))
        for entry in late:
            await self._take_over(self._contents.descendants[entry.name])
        await self._take_over(self._contents.submitted)
        await self._release(list(useless))
        return self._done

    async def _merge(self, entries: Sequence[CheckedOutJob]) -> None:
        ready = [entry for entry in entries if entry.name not in self._contents.busy]
        self._done = self._done.plus(busy=len(entries) - len(ready))
        theirs = await jobs_by_id(self._source, [entry.id for entry in ready])
        ours = {_name(job): job for job in await self._jobs(self._checkout_ids(ready))}
        open_entries: list[tuple[CheckedOutJob, Settlement]] = []
        closed: list[tuple[CheckedOutJob, Outcome, float | None]] = []
        for entry in ready:
            outcome, seconds = await self._outcome(entry, ours.get(entry.name))
            there = theirs.get(entry.id)
            if there is not None and there.epoch == entry.epoch and Held(entry.id, entry.epoch) in self._held:
                lease = Lease(there, self._file.head.worker, 0.0)
                here = ours.get(entry.name)
                version = "" if here is None else here.handler_version
                settlement = Settlement(lease, outcome, seconds, _came_from(here, there), version)
                open_entries.append((entry, settlement))
            else:
                closed.append((entry, outcome, seconds))
        written: list[tuple[CheckedOutJob, Outcome]] = []
        if open_entries:
            for run in {entry.run for entry, _ in open_entries}:
                await self._source.limits.learn(run)
            dropped = self._source.limits.dropped
            answers = await self._source.settle([settlement for _, settlement in open_entries])
            left_out = self._source.limits.dropped - dropped
            self._done = self._done.plus(created=-left_out, left_out=left_out)
            for (entry, settlement), accepted in zip(open_entries, answers, strict=True):
                if accepted:
                    written.append((entry, settlement.outcome))
                else:
                    closed.append((entry, settlement.outcome, settlement.seconds))
        written += await self._written_before(closed)
        self._done = self._done.plus(refused=len(ready) - len(written))
        await self._finish(ready, written)

    async def _finish(self, ready: Sequence[CheckedOutJob], written: Sequence[tuple[CheckedOutJob, Outcome]]) -> None:
        """Take over the descendants of settled entries, and cancel what is still pending in the checkout."""
        completed: set[str] = set()
        for entry, outcome in written:
            match outcome:
                case Completed():
                    completed.add(entry.id)
                    self._done = self._done.plus(completed=1, created=len(outcome.jobs))
                case Failed():
                    self._done = self._done.plus(**{"retried" if outcome.failure.retryable else "failed": 1})
                case Snoozed() | Released():
                    self._done = self._done.plus(released=1)
        for entry, outcome in written:
            if isinstance(outcome, Completed):
                await self._take_over(self._contents.descendants.get(entry.name, []), settled=outcome.jobs)
        await self._cancel_pending(self._checkout_ids(ready))
        if written:
            # Rejected jobs are not marked as merged: if this is the wrong queue, they can be merged into the right one.
            others = tuple(entry.id for entry, _ in written if entry.id not in completed)
            self._file.add([Merged(completed=tuple(sorted(completed)), others=others)])

    async def _outcome(self, entry: CheckedOutJob, job: Job | None) -> tuple[Outcome, float | None]:
        """Return the outcome of an entry for the source, and the duration of the attempt."""
        if job is None:
            return Released(), None
        if job.state is State.COMPLETED:
            return Completed(job.result, await self._children(entry.name)), job.seconds
        if job.state is State.FAILED and job.failure is not None:
            # It failed for good, even if the source has attempts left.
            return Failed(msgspec.structs.replace(job.failure, retryable=False)), job.seconds
        # The checkout was on another machine: its times may be anything, also no number.
        seconds = max((job.not_before or 0.0) - self._clock.now(), 0.0)
        delay = timedelta(seconds=min(seconds, _LONGEST_DELAY))
        if job.attempts > entry.attempts and (failures := await self._checkout.history(job.id)):
            return Failed(failures[-1].failure, retry_in=delay, max_attempts=job.max_attempts), failures[-1].seconds
        return (Snoozed(delay) if delay else Released()), None

    async def _written_before(
        self, closed: Sequence[tuple[CheckedOutJob, Outcome, float | None]]
    ) -> list[tuple[CheckedOutJob, Outcome]]:
        """Return the rejected entries that another merge has settled in the same way, now or before it died."""
        theirs = await jobs_by_id(self._source, [entry.id for entry, _, _ in closed]) if closed else {}
        return [
            (entry, outcome)
            for entry, outcome, seconds in closed
            if await self._was_written(entry, theirs.get(entry.id), outcome, seconds)
        ]

    async def _was_written(
        self, entry: CheckedOutJob, there: Job | None, outcome: Outcome, seconds: float | None
    ) -> bool:
        # Compare everything, even the duration: a copy of the checkout may have settled the entry with its own outcome,
        # and then the jobs created here do not belong in the source.
        match outcome:
            case Released() | Snoozed():
                return True  # there is nothing to write
            case _ if there is None:
                return False
            case Completed():
                done = (State.COMPLETED, entry.epoch, outcome.result, seconds)
                return (there.state, there.epoch, there.result, there.seconds) == done
            case Failed():
                past: list[Attempt] = await self._source.history(there.id)
                tried = (entry.epoch, outcome.failure, seconds)
                return any((attempt.epoch, attempt.failure, attempt.seconds) == tried for attempt in past)

    async def _children(self, name: _Name) -> tuple[NewJob, ...]:
        """Return the untouched children of an entry, for its settlement."""
        children = await self._jobs(self._contents.descendants.get(name, []))
        return tuple(
            NewJob(
                run=job.run,
                kind=job.kind,
                key=job.key,
                payload=job.payload,
                priority=job.priority,
                partition=job.partition,
                host=job.host,
                not_before=job.not_before,
                max_attempts=job.max_attempts,
            )
            for job in children
            if (job.state, job.epoch) == (State.PENDING, 0)
            and job.parent is not None
            and (job.run, job.parent.kind, job.parent.key) == name
        )

    async def _take_over(self, ids: Sequence[str], settled: Sequence[NewJob] = ()) -> None:
        """Let the source take over created jobs in their state, within the limits of their runs.

        `settled` were part of a settlement: the source has them, or its limits have left them out.
        """
        decided = {(job.run, job.kind, job.key) for job in settled}
        for start in range(0, len(ids), BATCH):
            jobs = await self._jobs(ids[start : start + BATCH])
            coming = [job for job in jobs if _name(job) not in decided]
            fitting = await self._admission.fitting(coming)
            answer = await taking_over(self._source).take_over(await carried(self._checkout, fitting))
            self._done = self._done.plus(created=answer.new, left_out=len(coming) - len(fitting))
            await self._cancel_pending([job.id for job in jobs])
            self._file.add([Merged(born=tuple(job.id for job in jobs))])

    async def _cancel_pending(self, ids: Sequence[str]) -> None:
        """Cancel jobs that are pending in both queues. Jobs that have been claimed meanwhile are not interrupted."""
        if ids:
            await self._checkout.cancel(Selection(ids=frozenset(ids), states=frozenset({State.PENDING})))

    def _checkout_ids(self, entries: Sequence[CheckedOutJob]) -> list[str]:
        """Return the ids in the checkout of those entries whose jobs are there."""
        arrived = self._contents.arrived
        return [arrived[entry.name] for entry in entries if entry.name in arrived]

    async def _jobs(self, ids: Sequence[str]) -> list[Job]:
        found = await jobs_by_id(self._checkout, ids)
        return [found[each] for each in ids if each in found]

    async def _release(self, held: Sequence[Held]) -> None:
        """Release leases that the checkout does not need, such as those of a claim just before a crash."""
        if leases := await leases_of(self._source, self._file.head.worker, held):
            await self._source.settle([Settlement(lease, Released()) for lease in leases])


def _came_from(ours: Job | None, there: Job) -> tuple[CameFrom, ...]:
    """Return `came_from` for a job of the source that the checkout has completed: its records were emitted there."""
    if ours is None or ours.state is not State.COMPLETED:
        return ()
    (checkout, *_) = passed_on(ours, there.epoch)
    # The checkout of an earlier version does not know that its jobs came from here, so this does not rely on it.
    return (checkout, CameFrom(there.queue, there.id, there.epoch, there.epoch), *there.came_from)


def _name(job: Job) -> _Name:
    return job.run, job.kind, job.key
