"""A bundle that comes back: what became of its jobs is settled in the queue they are from, with the leases it holds.

Every settlement is fenced like any worker's. A lease that was lost meanwhile is refused, and nothing of that job is
written.

One loan is one attempt in the source, however often the job was tried in the bundle: the last failure is what counts.
A job that failed for good in the bundle has failed for good in the source; one that waits for another try waits there.
Untouched ones, and those cancelled in the bundle, are given back.

Jobs that were born in the bundle follow the loan they go back to, and only if its settlement was accepted. Untouched
children ride with the settlement itself. Those that have a history of their own, and everything below them, are taken
over as they stand right after it; a crash in between is made good by merging again. Jobs that somebody submitted to
the bundle go back to no loan and are taken over as they stand.

What was merged is noted in the sheet, so that merging again changes nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import timedelta

import msgspec

from longshore.clock import Clock
from longshore.errors import UsageError
from longshore.job import Attempt, Job, NewJob, State
from longshore.lease import Held, Lease
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Queue, Selection, each_job
from longshore.runs.transfer.copy_jobs import Progress, carried, jobs_by_id, leases_of, taking_over
from longshore.runs.transfer.offline_checkout import CheckedOutJob, CheckoutFile, Merged

BATCH = 200
"""Loans to a settlement: each may have many jobs that were born of it."""

_Name = tuple[str, str, str]


class Merge(msgspec.Struct, frozen=True, kw_only=True):
    """What a merge did with the loans that were still open, and with the jobs born in the bundle."""

    completed: int = 0
    failed: int = 0
    again: int = 0
    """Failed, with attempts left: pending in the source once more."""
    returned: int = 0
    """Given back untouched."""
    refused: int = 0
    """No longer the bundle's to settle. Nothing of them was written."""
    busy: int = 0
    """Still worked on in the bundle, they or what was born of them. Left as they are."""
    born: int = 0
    """New in the source."""
    orphans: int = 0
    """Born of jobs that are no longer in the bundle. Left out."""
    before: int = 0
    """Merged earlier."""

    def plus(self, **more: int) -> Merge:
        """The same with some of the counts raised."""
        return msgspec.structs.replace(self, **{name: getattr(self, name) + number for name, number in more.items()})


async def merge(bundle: Queue, source: Queue, sheet: CheckoutFile, clock: Clock, *, progress: Progress) -> Merge:
    """Bring a bundle back. `UsageError` where it is from another queue. Safe to repeat at any time."""
    # What a worker of the bundle held when it died is not under way any more, and nobody else may be there to say so.
    await bundle.reap()
    contents = await _look_through(bundle, sheet)
    if contents.families or contents.strangers or len(sheet.merged) < len(sheet.loans):
        await _refuse_stranger(source, sheet)
    return await _Merging(bundle, source, sheet, clock, contents).carry_out(progress)


async def _refuse_stranger(source: Queue, sheet: CheckoutFile) -> None:
    loans = list(sheet.loans.values())
    # One is enough; of all, some may have been pruned since. A copy of the queue has the same names, but older epochs.
    for start in range(0, len(loans), BATCH):
        there = await jobs_by_id(source, [loan.id for loan in loans[start : start + BATCH]])
        known = [(job, sheet.loans[job.id]) for job in there.values()]
        if any(_name(job) == loan.name and job.epoch >= loan.epoch for job, loan in known):
            return
    if loans:
        raise UsageError(
            f"This bundle was taken from {sheet.head.source}, and its jobs are not in the queue it is to be merged "
            "into. Name the queue it is from."
        )


class _Contents(msgspec.Struct, frozen=True):
    """The jobs of a bundle by what they go back to. Only names and ids: the jobs themselves may be large."""

    borrowed: dict[_Name, str]
    """Loans that arrived, and their ids in the bundle."""
    families: dict[_Name, list[str]]
    """What was born and not brought along yet, by the loan it goes back to, oldest first."""
    strangers: list[str]
    """The same for what was submitted to the bundle, and all that came of it."""
    busy: set[_Name]
    """Loans, and strangers, of which something is in the hands of a worker."""
    orphans: int
    """Born of jobs that are no longer there, so that nobody can tell whether they belong into the source."""


async def _look_through(bundle: Queue, sheet: CheckoutFile) -> _Contents:
    loans = {loan.name for loan in sheet.loans.values()}
    borrowed: dict[_Name, str] = {}
    families: defaultdict[_Name, list[str]] = defaultdict(list)
    strangers: list[str] = []
    busy: set[_Name] = set()
    orphans = 0
    # What each job goes back to: a loan, or a job that was submitted to the bundle.
    roots: dict[_Name, _Name] = {name: name for name in loans}
    # Oldest first: a parent comes before its children.
    async for job in each_job(bundle, Selection()):
        name = _name(job)
        if name in loans:
            borrowed[name] = job.id
        elif job.parent is None:
            roots[name] = name
        elif (root := roots.get((job.run, job.parent.kind, job.parent.key))) is not None:
            roots[name] = root
        elif job.id not in sheet.born:
            orphans += 1
        if name in roots and job.state is State.CLAIMED:
            busy.add(roots[name])
        elif name in roots and name not in loans and job.id not in sheet.born:
            (families[roots[name]] if roots[name] in loans else strangers).append(job.id)
    return _Contents(borrowed, families, strangers, busy, orphans)


class _Merging:
    def __init__(self, bundle: Queue, source: Queue, sheet: CheckoutFile, clock: Clock, contents: _Contents) -> None:
        self._bundle = bundle
        self._source = source
        self._sheet = sheet
        self._clock = clock
        self._contents = contents
        self._done = Merge(orphans=contents.orphans)
        self._held: set[Held] = set()

    async def carry_out(self, progress: Progress) -> Merge:
        worker, terms = self._sheet.head.worker, self._sheet.head.terms
        loans = list(self._sheet.loans.values())
        waiting = [loan for loan in loans if loan.id not in self._sheet.merged]
        late = [loan for loan in loans if loan.id in self._sheet.completed and loan.name in self._contents.families]
        names = {loan.name for loan in loans}
        self._done = self._done.plus(before=len(loans) - len(waiting), busy=len(self._contents.busy - names))
        # What is still worked on in the bundle is held for another while; what has lost its lease stays lost.
        self._held = set(await self._source.renew(worker, terms.hold))
        useless = self._held - {Held(loan.id, loan.epoch) for loan in waiting}
        for start in range(0, len(waiting), BATCH):
            await self._merge(waiting[start : start + BATCH])
            progress(self._done.before + min(start + BATCH, len(waiting)))
        for loan in late:
            await self._bring_along(self._contents.families[loan.name])
        await self._bring_along(self._contents.strangers)
        await self._give_back(list(useless))
        return self._done

    async def _merge(self, loans: Sequence[CheckedOutJob]) -> None:
        ready = [loan for loan in loans if loan.name not in self._contents.busy]
        self._done = self._done.plus(busy=len(loans) - len(ready))
        theirs = await jobs_by_id(self._source, [loan.id for loan in ready])
        ours = {_name(job): job for job in await self._jobs(self._own_ids(ready))}
        open_loans: list[tuple[CheckedOutJob, Settlement]] = []
        closed: list[tuple[CheckedOutJob, Outcome, float | None]] = []
        for loan in ready:
            outcome, seconds = await self._verdict(loan, ours.get(loan.name))
            there = theirs.get(loan.id)
            if there is not None and there.epoch == loan.epoch and Held(loan.id, loan.epoch) in self._held:
                open_loans.append((loan, Settlement(Lease(there, self._sheet.head.worker, 0.0), outcome, seconds)))
            else:
                closed.append((loan, outcome, seconds))
        written: list[tuple[CheckedOutJob, Outcome]] = []
        if open_loans:
            answers = await self._source.settle([settlement for _, settlement in open_loans])
            for (loan, settlement), accepted in zip(open_loans, answers, strict=True):
                if accepted:
                    written.append((loan, settlement.outcome))
                else:
                    closed.append((loan, settlement.outcome, settlement.seconds))
        written += await self._written_before(closed)
        self._done = self._done.plus(refused=len(ready) - len(written))
        await self._conclude(ready, written)

    async def _conclude(self, ready: Sequence[CheckedOutJob], written: Sequence[tuple[CheckedOutJob, Outcome]]) -> None:
        """What the source has got: all that was born of it follows, and nobody works on it here any more."""
        completed: set[str] = set()
        for loan, outcome in written:
            match outcome:
                case Completed():
                    completed.add(loan.id)
                    self._done = self._done.plus(completed=1, born=len(outcome.jobs))
                case Failed():
                    self._done = self._done.plus(**{"again" if outcome.failure.retryable else "failed": 1})
                case Snoozed() | Released():
                    self._done = self._done.plus(returned=1)
        names = [loan.name for loan, _ in written if loan.id in completed]
        await self._bring_along([each for name in names for each in self._contents.families.get(name, [])])
        await self._stop_waiting(self._own_ids(ready))
        if written:
            # Not what was refused: should this be the wrong queue after all, the right one can still have it.
            others = tuple(loan.id for loan, _ in written if loan.id not in completed)
            self._sheet.add([Merged(completed=tuple(sorted(completed)), others=others)])

    async def _verdict(self, loan: CheckedOutJob, job: Job | None) -> tuple[Outcome, float | None]:
        """What the source is told of a loan, and how long the attempt took."""
        if job is None:
            return Released(), None
        if job.state is State.COMPLETED:
            return Completed(job.result, await self._children(loan.name)), job.seconds
        if job.state is State.FAILED and job.failure is not None:
            # The attempts the source has left do not matter: it was given up.
            return Failed(msgspec.structs.replace(job.failure, retryable=False)), job.seconds
        delay = timedelta(seconds=max((job.not_before or 0.0) - self._clock.now(), 0.0))
        if job.attempts > loan.attempts and (failures := await self._bundle.history(job.id)):
            return Failed(failures[-1].failure, retry_in=delay, max_attempts=job.max_attempts), failures[-1].seconds
        return (Snoozed(delay) if delay else Released()), None

    async def _written_before(
        self, closed: Sequence[tuple[CheckedOutJob, Outcome, float | None]]
    ) -> list[tuple[CheckedOutJob, Outcome]]:
        """Those that the fence refuses because another merge has settled them: one that died, or is at it as well."""
        theirs = await jobs_by_id(self._source, [loan.id for loan, _, _ in closed]) if closed else {}
        return [
            (loan, outcome)
            for loan, outcome, seconds in closed
            if await self._was_written(loan, theirs.get(loan.id), outcome, seconds)
        ]

    async def _was_written(
        self, loan: CheckedOutJob, there: Job | None, outcome: Outcome, seconds: float | None
    ) -> bool:
        # Everything is compared, down to how long it took: a copy of the bundle may have settled the loan with what was
        # done there, and then nothing that was born here belongs into the source.
        match outcome:
            case Released() | Snoozed():
                return True  # there is nothing to write
            case _ if there is None:
                return False
            case Completed():
                done = (State.COMPLETED, loan.epoch, outcome.result, seconds)
                return (there.state, there.epoch, there.result, there.seconds) == done
            case Failed():
                past: list[Attempt] = await self._source.history(there.id)
                tried = (loan.epoch, outcome.failure, seconds)
                return any((entry.epoch, entry.failure, entry.seconds) == tried for entry in past)

    async def _children(self, name: _Name) -> tuple[NewJob, ...]:
        """The untouched children of a loan, as the settlement brings them along."""
        family = await self._jobs(self._contents.families.get(name, []))
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
            for job in family
            if (job.state, job.epoch) == (State.PENDING, 0)
            and job.parent is not None
            and (job.run, job.parent.kind, job.parent.key) == name
        )

    async def _bring_along(self, ids: Sequence[str]) -> None:
        """Jobs that are no loans, as they stand. Those that came with a settlement are known to the source already."""
        for start in range(0, len(ids), BATCH):
            jobs = await self._jobs(ids[start : start + BATCH])
            answer = await taking_over(self._source).take_over(await carried(self._bundle, jobs))
            self._done = self._done.plus(born=answer.new)
            await self._stop_waiting([job.id for job in jobs])
            self._sheet.add([Merged(born=tuple(job.id for job in jobs))])

    async def _stop_waiting(self, ids: Sequence[str]) -> None:
        """What waits in the source must not wait here as well. What has been taken up meanwhile is not interrupted."""
        if ids:
            await self._bundle.cancel(Selection(ids=frozenset(ids), states=frozenset({State.PENDING})))

    def _own_ids(self, loans: Sequence[CheckedOutJob]) -> list[str]:
        """The ids in the bundle of those loans that arrived there."""
        borrowed = self._contents.borrowed
        return [borrowed[loan.name] for loan in loans if loan.name in borrowed]

    async def _jobs(self, ids: Sequence[str]) -> list[Job]:
        found = await jobs_by_id(self._bundle, ids)
        return [found[each] for each in ids if each in found]

    async def _give_back(self, held: Sequence[Held]) -> None:
        """What was claimed for the bundle in the moment before a crash, and whatever else it has no more use for."""
        if leases := await leases_of(self._source, self._sheet.head.worker, held):
            await self._source.settle([Settlement(lease, Released()) for lease in leases])


def _name(job: Job) -> _Name:
    return job.run, job.kind, job.key
