"""Move jobs: a copy after which the jobs are only in the target.

A job is removed from the source only after the target has it, and a pending job is in the target only after the source
has stopped giving it to workers:

- A pending job is claimed first, so that no worker takes it meanwhile; then the target takes it over; then it is
  settled in the source as completed, with the target as its result; then it is pruned there. It is settled as completed
  because only a prune changes a completed job: `retry` skips it. A later move that finds such a job knows that the
  target has it, and prunes it.
- A finished job is taken over, then pruned in the source if the target's job is the same.

If the process dies in between, moving again resumes. The claiming worker has the same identity for every move of the
same run to the same target, so that `renew` tells the next start what the last one held. Its leases are very long: a
claimed job may be in the target already, and the source must not give it to a worker before that is checked.

The fence may still reject a settlement, because the job was cancelled during the move or released. Then the source is
right, and the job is withdrawn from the target unless a worker has started on it there.

Jobs held by workers stay in the source, and so do jobs that are not due yet and pending jobs of a paused run: they
cannot be claimed, and without a claim both queues would give them to workers for some time. Completed jobs whose
records the source keeps itself stay as well: their records would be removed with them.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from longshore.errors import UsageError
from longshore.extensions.find import find
from longshore.extensions.traces import KeepsTraces
from longshore.job import FINISHED, Job, State
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Completed, Released, Settlement
from longshore.queue import Count, Queue, Selection, Submitted, totals
from longshore.runs.transfer.copy_jobs import (
    BATCH,
    MOVED_TO,
    MOVER,
    Progress,
    carried,
    copy_limits,
    has_left,
    jobs_by_id,
    leases_of,
    taking_over,
)
from longshore.url import mask_url
from longshore.wrappers.worker_queue import WorkerQueue

HOLD = timedelta(days=30)
"""How long the source holds jobs for a move that has died: long enough for a person to resume the move."""

_Name = tuple[str, str, str]
_Predicate = Callable[[Job, Job], bool]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a move."""

    moved: int
    """Jobs that are in the target and no longer in the source."""
    differing: int
    """Jobs finished in the source whose job in the target is not a copy: left in both."""
    given_up: int
    """Jobs pending in the source whose job in the target is failed or cancelled: left in both."""
    with_records: int
    """Completed jobs of runs whose records the source keeps itself: left there, with the records."""
    left: Count
    """Jobs that the source still has, including those."""


class Move:
    """A move of the jobs of a run, or of all runs, from one queue to another.

    `route` are the URLs of the two queues. They give the claiming worker its identity, and the target is stored in the
    source as the result of a moved job.
    """

    def __init__(self, source: WorkerQueue, target: Queue, run: str | None, *, route: tuple[str, str]) -> None:
        self._source = source
        self._target = target
        self._receiver = taking_over(target)
        self._run = run
        self._worker = mover(*route, run)
        self._moved_outcome = Completed({MOVED_TO: mask_url(route[1])})
        self._lookup = _Lookup(target, run)
        self._moved = 0
        self._differing = 0
        self._with_records = 0
        self._given_up: list[Held] = []

    async def carry_out(self, progress: Progress) -> Moved:
        """Move every job that can be moved. Safe to repeat, also while another process makes the same move."""
        self._moved, self._differing, self._with_records, self._given_up = 0, 0, 0, []
        await copy_limits(self._source, self._target, self._run)
        # Renew before reaping: an expired lease of a move that died is still ours unless it was reaped.
        held = await self._source.renew(self._worker, HOLD)
        for start in range(0, len(held), BATCH):
            await self._resume_held(await leases_of(self._source, self._worker, held[start : start + BATCH]))
            progress(self._moved)
        while leases := await self._claim():
            await self._move_claimed(leases)
            progress(self._moved)
        await self._release_given_up()
        after = ""
        finished = Selection(run=self._run, states=FINISHED)
        while page := await self._source.jobs(finished, after=after, limit=BATCH):
            await self._move_finished(page)
            progress(self._moved)
            after = page[-1].id
        left = totals(await self._source.stats(self._run))
        return Moved(
            moved=self._moved,
            differing=self._differing,
            given_up=len(self._given_up),
            with_records=self._with_records,
            left=left,
        )

    async def _claim(self) -> list[Lease]:
        # Jobs held by dead workers should move too, and there may be no other process left to reap them.
        await self._source.reap()
        return await self._source.claim(Want(worker=self._worker, limit=BATCH, lease=HOLD, run=self._run))

    async def _resume_held(self, leases: Sequence[Lease]) -> None:
        """Move jobs held by a move that died. Some of them may have arrived, so none may be released unchecked."""
        answer = await self._receiver.take_over(await carried(self._source, [lease.job for lease in leases]))
        await self._remove_from_source(leases, answer, _has_arrived)

    async def _move_claimed(self, leases: Sequence[Lease]) -> None:
        """Move jobs that were just claimed."""
        try:
            coming = await carried(self._source, [lease.job for lease in leases])
        except BaseException:
            # The target has none of them: release them to the source's workers, without counting an attempt.
            await self._release(leases)
            raise
        try:
            answer = await self._receiver.take_over(coming)
        except UsageError:
            # The target cannot store one of them, so it has stored none. After any other error it may have them.
            await self._release(leases)
            raise
        await self._remove_from_source(leases, answer, _is_handled)

    async def _remove_from_source(self, leases: Sequence[Lease], answer: Submitted, may_remove: _Predicate) -> None:
        """Remove from the source the jobs that the target has."""
        if answer.duplicates:
            there = await self._lookup.find({_name(lease.job) for lease in leases})
            in_target = {lease.held: there.get(_name(lease.job)) for lease in leases}
            going = [
                lease
                for lease in leases
                if (target_job := in_target[lease.held]) is not None and may_remove(target_job, lease.job)
            ]
            # Hold them until the last claim, or they would be claimed again at once.
            self._given_up += in_target.keys() - {lease.held for lease in going}
            leases = going
        answers = await self._source.settle([Settlement(lease, self._moved_outcome) for lease in leases])
        await self._prune([lease.job.id for lease, gone in zip(leases, answers, strict=True) if gone], State.COMPLETED)
        await self._withdraw([lease.job for lease, gone in zip(leases, answers, strict=True) if not gone])

    async def _withdraw(self, jobs: Sequence[Job]) -> None:
        """Remove from the target the jobs that were cancelled in the source, or released from us, during the move."""
        if not jobs:
            return
        # If a job is gone or marked as moved, another process has completed the same move.
        there = await jobs_by_id(self._source, [job.id for job in jobs])
        ours = {_name(job): job for job in jobs if job.id in there and not has_left(there[job.id])}
        in_target = await self._lookup.find(set(ours))
        untouched = frozenset(
            target_job.id
            for name, target_job in in_target.items()
            if _is_copy(target_job, ours[name])
            and (target_job.state, target_job.epoch) == (State.PENDING, ours[name].epoch)
        )
        if untouched:
            await self._target.cancel(Selection(ids=untouched, states=frozenset({State.PENDING})))
            await self._target.prune(Selection(ids=untouched, states=frozenset({State.CANCELLED})))

    async def _release_given_up(self) -> None:
        for start in range(0, len(self._given_up), BATCH):
            await self._release(await leases_of(self._source, self._worker, self._given_up[start : start + BATCH]))

    async def _release(self, leases: Sequence[Lease]) -> None:
        await self._source.settle([Settlement(lease, Released()) for lease in leases])

    async def _move_finished(self, page: Sequence[Job]) -> None:
        page = await self._without_records(page)
        coming = [job for job in page if not has_left(job)]
        gone = list(page)
        answer = await self._receiver.take_over(await carried(self._source, coming))
        if answer.duplicates:
            there = await self._lookup.find({_name(job) for job in coming})
            staying = {job.id for job in coming if not await self._has(there.get(_name(job)), job)}
            self._differing += len(staying)
            gone = [job for job in page if job.id not in staying]
        for state in FINISHED:
            await self._prune([job.id for job in gone if job.state is state], state)

    async def _without_records(self, page: Sequence[Job]) -> list[Job]:
        """Return the jobs without those whose records the source would remove with them."""
        keeper = find(self._source, KeepsTraces)
        if keeper is None:
            return list(page)
        traces = await keeper.traces()
        runs = {job.run for job in page if job.state is State.COMPLETED and not has_left(job)}
        recorded = {run for run in runs if (await traces.tally(run)).kept}
        staying = {job.id for job in page if job.state is State.COMPLETED and job.run in recorded and not has_left(job)}
        self._with_records += len(staying)
        return [job for job in page if job.id not in staying]

    async def _has(self, target_job: Job | None, job: Job) -> bool:
        """Return whether nothing is lost if the finished job of the source is removed."""
        if target_job is None:
            return False
        match job.state:
            case State.COMPLETED:
                # Only the completed job itself has the result.
                return (target_job.state, target_job.epoch, target_job.result) == (job.state, job.epoch, job.result)
            case State.FAILED if target_job.state is not State.FAILED or target_job.epoch != job.epoch:
                # It may have arrived earlier and been retried there.
                past = await self._target.history(target_job.id)
                return any((entry.epoch, entry.failure) == (job.epoch, job.failure) for entry in past)
            case _:
                return (target_job.state, target_job.failure) == (job.state, job.failure)

    async def _prune(self, ids: Sequence[str], state: State) -> None:
        # Only in the state that was copied: a job that was retried and completed since differs from the target's job.
        if ids:
            self._moved += await self._source.prune(Selection(ids=frozenset(ids), states=frozenset({state})))


def mover(source: str, target: str, run: str | None) -> WorkerId:
    """Return the worker that claims for a move: the same one for the same move."""
    # Masked, because not even the hash of a password should be stored in a queue.
    words = "\0".join((mask_url(source), mask_url(target), run or ""))
    name = hashlib.sha256(words.encode()).hexdigest()
    label = f"{MOVER}{name[:8]}"
    return WorkerId(label, f"{label}/{name[:16]}")


def _name(job: Job) -> _Name:
    return job.run, job.kind, job.key


def _is_handled(target_job: Job, _: Job) -> bool:
    """Return whether the target has done, or will do, a job that is pending in the source."""
    return target_job.state not in {State.FAILED, State.CANCELLED}


def _has_arrived(target_job: Job, job: Job) -> bool:
    """Return whether the target has a job that an earlier move held, in whatever state it is there."""
    return _is_handled(target_job, job) or (_is_copy(target_job, job) and target_job.epoch >= job.epoch)


def _is_copy(target_job: Job, job: Job) -> bool:
    # A copied job keeps its time of submission. Media store it to the microsecond or better.
    return math.isclose(target_job.submitted_at, job.submitted_at, rel_tol=0, abs_tol=1e-5)


class _Lookup:
    """Finds jobs by name in a queue that can only be listed by age.

    It starts at the last job that it found, and wraps around once. Jobs were copied in the same order, so looking up
    all jobs of a run reads the queue a few times, not once for each batch.
    """

    def __init__(self, queue: Queue, run: str | None) -> None:
        self._queue = queue
        self._selection = Selection(run=run)
        self._after = ""

    async def find(self, names: set[_Name]) -> dict[_Name, Job]:
        """Return those of these jobs that the queue has, by name."""
        found: dict[_Name, Job] = {}
        start, around = self._after, not self._after
        while len(found) < len(names):
            page = await self._queue.jobs(self._selection, after=self._after, limit=BATCH)
            found |= {_name(job): job for job in page if _name(job) in names}
            if page and not (around and start and any(job.id == start for job in page)):
                self._after = page[-1].id
            elif page or around:
                break
            else:
                self._after, around = "", True
        return found
