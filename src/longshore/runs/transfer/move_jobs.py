"""A copy after which the jobs are in the target only.

Nothing leaves the source before the target has it, and nothing that waits is in the target before the source has
stopped handing it out:

- What is pending is claimed first, so that nobody works on it meanwhile; then taken over; then settled in the source
  as completed, with where it went as the result; then pruned there. Completed, for nothing but a prune changes such a
  job: `retry` passes it over. Whoever finds it knows that the target had it, and finishes the prune.
- What is finished is taken over, then pruned in the source, if what the target has is the same.

Whatever dies in between, moving again goes on from there. The worker that claims is the same whenever the same is moved
to the same place, so that `renew` tells the next start what the last one held. Its leases are very long: a job that is
claimed may have arrived, and must not be handed out here before somebody has looked.

The fence may still refuse a settlement: the job was cancelled on its way, or taken back. Then the source knows better
than what the target was given, which is withdrawn from there as long as nobody has begun with it.

What is held by a worker stays, and so does what is not due yet: nobody can claim it, and without a claim there would be
a time in which both queues hand it out.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Callable, Sequence
from datetime import timedelta

import msgspec

from longshore.errors import UsageError
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
    has_left,
    jobs_by_id,
    leases_of,
    taking_over,
)
from longshore.url import mask_url

HOLD = timedelta(days=30)
"""How long the source keeps what is on its way when a move has died: long enough for a person to come and go on."""

_Name = tuple[str, str, str]
_Judge = Callable[[Job, Job], bool]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a move did, and what it had to leave in the source."""

    moved: int
    """Are in the target and no longer in the source."""
    differing: int
    """Finished in the source and there in the target, but not as a copy: left in both."""
    given_up: int
    """Pending in the source, and in the target failed or cancelled: left in both."""
    left: Count
    """What the source still has, those included."""


class Move:
    """Jobs of a run, or of all runs, on their way from one queue to another.

    `route` is what the two queues are called, for the name of the worker that claims and for what the source keeps of
    a job in the instant between.
    """

    def __init__(self, source: Queue, target: Queue, run: str | None, *, route: tuple[str, str]) -> None:
        self._source = source
        self._target = target
        self._receiver = taking_over(target)
        self._run = run
        self._worker = mover(*route, run)
        self._gone = Completed({MOVED_TO: mask_url(route[1])})
        self._lookup = _Lookup(target, run)
        self._moved = 0
        self._differing = 0
        self._given_up: list[Held] = []

    async def carry_out(self, progress: Progress) -> Moved:
        """Move what can be moved. Safe to repeat, also while another does the same."""
        self._moved, self._differing, self._given_up = 0, 0, []
        # Before anything is reaped: what a move that died has held for too long is still ours if nobody took notice.
        held = await self._source.renew(self._worker, HOLD)
        for start in range(0, len(held), BATCH):
            await self._go_on(await leases_of(self._source, self._worker, held[start : start + BATCH]))
            progress(self._moved)
        while leases := await self._claim():
            await self._begin(leases)
            progress(self._moved)
        await self._give_back()
        after = ""
        finished = Selection(run=self._run, states=FINISHED)
        while page := await self._source.jobs(finished, after=after, limit=BATCH):
            await self._move_finished(page)
            progress(self._moved)
            after = page[-1].id
        left = totals(await self._source.stats(self._run))
        return Moved(moved=self._moved, differing=self._differing, given_up=len(self._given_up), left=left)

    async def _claim(self) -> list[Lease]:
        # What dead workers held is to come along, and there may be nobody else left to bring it back.
        await self._source.reap()
        return await self._source.claim(Want(worker=self._worker, limit=BATCH, lease=HOLD, run=self._run))

    async def _go_on(self, leases: Sequence[Lease]) -> None:
        """What was held by a move that died. Some of it may have arrived, so none of it is ever just given back."""
        answer = await self._receiver.take_over(await carried(self._source, [lease.job for lease in leases]))
        await self._let_go(leases, answer, _has_arrived)

    async def _begin(self, leases: Sequence[Lease]) -> None:
        """What was claimed just now."""
        try:
            coming = await carried(self._source, [lease.job for lease in leases])
        except BaseException:
            # Nothing of it has left: the source's own workers may have it back, without an attempt lost.
            await self._release(leases)
            raise
        try:
            answer = await self._receiver.take_over(coming)
        except UsageError:
            # The target cannot store one of them, and so has none. After any other error it may have them.
            await self._release(leases)
            raise
        await self._let_go(leases, answer, _is_seen_to)

    async def _let_go(self, leases: Sequence[Lease], answer: Submitted, may_go: _Judge) -> None:
        """Remove from the source what the target has got."""
        if answer.duplicates:
            there = await self._lookup.find({_name(lease.job) for lease in leases})
            twins = {lease.held: there.get(_name(lease.job)) for lease in leases}
            going = [lease for lease in leases if (twin := twins[lease.held]) is not None and may_go(twin, lease.job)]
            # Held until nothing more is claimed, or it would be claimed again at once.
            self._given_up += twins.keys() - {lease.held for lease in going}
            leases = going
        answers = await self._source.settle([Settlement(lease, self._gone) for lease in leases])
        await self._prune([lease.job.id for lease, gone in zip(leases, answers, strict=True) if gone], State.COMPLETED)
        await self._withdraw([lease.job for lease, gone in zip(leases, answers, strict=True) if not gone])

    async def _withdraw(self, jobs: Sequence[Job]) -> None:
        """Take back from the target what was cancelled, or taken from us, in the source on its way."""
        if not jobs:
            return
        # What is no longer there, or has left, another did the same with.
        there = await jobs_by_id(self._source, [job.id for job in jobs])
        ours = {_name(job): job for job in jobs if job.id in there and not has_left(there[job.id])}
        twins = await self._lookup.find(set(ours))
        untouched = frozenset(
            twin.id
            for name, twin in twins.items()
            if _is_copy(twin, ours[name]) and (twin.state, twin.epoch) == (State.PENDING, ours[name].epoch)
        )
        if untouched:
            await self._target.cancel(Selection(ids=untouched, states=frozenset({State.PENDING})))
            await self._target.prune(Selection(ids=untouched, states=frozenset({State.CANCELLED})))

    async def _give_back(self) -> None:
        for start in range(0, len(self._given_up), BATCH):
            await self._release(await leases_of(self._source, self._worker, self._given_up[start : start + BATCH]))

    async def _release(self, leases: Sequence[Lease]) -> None:
        await self._source.settle([Settlement(lease, Released()) for lease in leases])

    async def _move_finished(self, page: Sequence[Job]) -> None:
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

    async def _has(self, twin: Job | None, job: Job) -> bool:
        """Whether nothing is lost if the target keeps its job and the finished one of the source goes."""
        if twin is None:
            return False
        match job.state:
            case State.COMPLETED:
                # Only the completion itself has the result.
                return (twin.state, twin.epoch, twin.result) == (job.state, job.epoch, job.result)
            case State.FAILED if twin.state is not State.FAILED or twin.epoch != job.epoch:
                # It may have arrived earlier, and been tried again there.
                past = await self._target.history(twin.id)
                return any((entry.epoch, entry.failure) == (job.epoch, job.failure) for entry in past)
            case _:
                return (twin.state, twin.failure) == (job.state, job.failure)

    async def _prune(self, ids: Sequence[str], state: State) -> None:
        # Only in the state that was carried: what somebody retried since, and completed, is not what the target has.
        if ids:
            self._moved += await self._source.prune(Selection(ids=frozenset(ids), states=frozenset({state})))


def mover(source: str, target: str, run: str | None) -> WorkerId:
    """The worker that claims for a move: the same one for the same move."""
    # Masked: not even a hash of a password belongs into a queue.
    words = "\0".join((mask_url(source), mask_url(target), run or ""))
    name = hashlib.sha256(words.encode()).hexdigest()
    label = f"{MOVER}{name[:8]}"
    return WorkerId(label, f"{label}/{name[:16]}")


def _name(job: Job) -> _Name:
    return job.run, job.kind, job.key


def _is_seen_to(twin: Job, _: Job) -> bool:
    """Whether a job that waits in the source is done by the target, or will be."""
    return twin.state not in {State.FAILED, State.CANCELLED}


def _has_arrived(twin: Job, job: Job) -> bool:
    """The same for one that a move has held before: whatever became of it in the target, it went there to stay."""
    return _is_seen_to(twin, job) or (_is_copy(twin, job) and twin.epoch >= job.epoch)


def _is_copy(twin: Job, job: Job) -> bool:
    # The instant comes along with a job. Media keep it to the microsecond or better.
    return math.isclose(twin.submitted_at, job.submitted_at, rel_tol=0, abs_tol=1e-5)


class _Lookup:
    """Finds jobs by name in a queue that can only be listed by age.

    It goes on from where it found something last, and around once: what was copied in one order is found in that order,
    so that going through a whole run reads the queue a few times, not once for each batch.
    """

    def __init__(self, queue: Queue, run: str | None) -> None:
        self._queue = queue
        self._selection = Selection(run=run)
        self._after = ""

    async def find(self, names: set[_Name]) -> dict[_Name, Job]:
        """Those of these jobs that are there."""
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
