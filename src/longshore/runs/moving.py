"""A copy after which the jobs are in the target only.

Nothing leaves the source before the target has it, and nothing that waits is in the target before the source has
stopped handing it out:

- What is pending is claimed first, so that nobody works on it meanwhile; then taken over; then settled in the source
  as failed ("moved"), which the fence refuses if the lease was lost; then pruned there.
- What is finished is taken over, then pruned in the source.

Whatever dies in between, moving again goes on from there. The worker that claims is the same whenever the same is moved
to the same place, so that `renew` tells the next start what the last one held.

What is held by a worker stays, and so does what is not due yet: nobody can claim it, and without a claim there would be
a time in which both queues hand it out.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import msgspec

from longshore.errors import Failure
from longshore.job import FINISHED, Job, State
from longshore.lease import DEFAULT_LEASE, Lease, Want, WorkerId
from longshore.outcome import Failed, Released, Settlement
from longshore.queue import Count, Queue, Selection, totals
from longshore.runs.copying import BATCH, Progress, carried, leases_of
from longshore.transfer import TakesOver
from longshore.url import mask_url

_Name = tuple[str, str, str]


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """What a move did, and what it had to leave in the source."""

    moved: int
    """Are in the target and no longer in the source."""
    differing: int
    """Finished in the source and there in the target, but not as a copy: left in both."""
    left: Count
    """What the source still has, those included."""


class Move:
    """Jobs of a run, or of all runs, on their way from one queue to another.

    `route` is what the two queues are called, for the name of the worker that claims and for what the source keeps of
    a job in the instant between.
    """

    def __init__(self, source: Queue, target: TakesOver, run: str | None, *, route: tuple[str, str]) -> None:
        self._source = source
        self._target = target
        self._run = run
        self._worker = mover(*route, run)
        self._gone = Failed(Failure(error_type="unknown", message=f"moved to {mask_url(route[1])}", retryable=False))
        self._lookup = _Lookup(target, run)
        self._moved = 0
        self._differing = 0

    async def carry_out(self, progress: Progress) -> Moved:
        """Move what can be moved. Safe to repeat, also while another does the same."""
        held = await self._source.renew(self._worker, DEFAULT_LEASE)
        for start in range(0, len(held), BATCH):
            await self._hand_over(await leases_of(self._source, self._worker, held[start : start + BATCH]))
            progress(self._moved)
        want = Want(worker=self._worker, limit=BATCH, lease=DEFAULT_LEASE, run=self._run)
        while leases := await self._source.claim(want):
            await self._hand_over(leases)
            progress(self._moved)
        after = ""
        finished = Selection(run=self._run, states=FINISHED)
        while page := await self._source.jobs(finished, after=after, limit=BATCH):
            await self._move_finished(page)
            progress(self._moved)
            after = page[-1].id
        left = totals(await self._source.stats(self._run))
        return Moved(moved=self._moved, differing=self._differing, left=left)

    async def _hand_over(self, leases: Sequence[Lease]) -> None:
        try:
            coming = await carried(self._source, [lease.job for lease in leases])
        except BaseException:
            # Nothing of it has left: the source's own workers may have it back, without an attempt lost.
            await self._source.settle([Settlement(lease, Released()) for lease in leases])
            raise
        # What the target knows already came with a move that died here, or stands there in its own right. Either way
        # the job is not lost, and it must not be waiting in two places.
        await self._target.take_over(coming)
        answers = await self._source.settle([Settlement(lease, self._gone) for lease in leases])
        await self._prune([lease.job for lease, gone in zip(leases, answers, strict=True) if gone])

    async def _move_finished(self, page: Sequence[Job]) -> None:
        answer = await self._target.take_over(await carried(self._source, page))
        gone = list(page)
        if answer.duplicates:
            there = await self._lookup.find({_name(job) for job in page})
            gone = [job for job in page if (twin := there.get(_name(job))) is not None and _stands_for(twin, job)]
            self._differing += len(page) - len(gone)
        await self._prune(gone)

    async def _prune(self, jobs: Sequence[Job]) -> None:
        if jobs:
            self._moved += await self._source.prune(Selection(ids=frozenset(job.id for job in jobs)))


def mover(source: str, target: str, run: str | None) -> WorkerId:
    """The worker that claims for a move: the same one for the same move."""
    # Masked: not even a hash of a password belongs into a queue.
    words = "\0".join((mask_url(source), mask_url(target), run or ""))
    name = hashlib.sha256(words.encode()).hexdigest()
    label = f"copy_{name[:8]}"
    return WorkerId(label, f"{label}/{name[:16]}")


def _name(job: Job) -> _Name:
    return job.run, job.kind, job.key


def _stands_for(twin: Job, job: Job) -> bool:
    """Whether nothing is lost if the target keeps its job and the finished one of the source goes."""
    if job.state is State.COMPLETED:
        # Only the completion itself has the result.
        return twin.state is State.COMPLETED and twin.epoch == job.epoch
    return twin.epoch >= job.epoch


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
