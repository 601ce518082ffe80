"""Taking jobs out of the hands of workers: pending again, for whoever is there.

The queue has no order for that. It is done in the holder's place, by the outcome `Released` under the holder's own
lease: no attempt counts, and the fence keeps out whatever the holder settles later. Some media tell leases apart by who
holds them, and that is known only of workers on the roll. What is held by others is cancelled and given all its
attempts again, the only other way there is; for an instant such a job is finished, and its run may be, too.

What a move between two queues holds stays with it: it may have arrived at the other, and would be worked on in both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import msgspec

from longshore.extensions.find import find
from longshore.extensions.presence import WorkerRegistry
from longshore.job import Job, State
from longshore.lease import Lease, WorkerId
from longshore.outcome import Released as GivenBack
from longshore.outcome import Settlement
from longshore.queue import Queue, Selection
from longshore.runs.transfer.copy_jobs import MOVER

_PAGE = 500


class ReleaseResult(msgspec.Struct, frozen=True, kw_only=True):
    """What was done. Jobs that were settled meanwhile are in none of these."""

    untouched: int = 0
    """Are pending again, and no attempt counts."""
    anew: int = 0
    """Are pending again, with all their attempts: those of before do not count any more."""
    moving: int = 0
    """Were left where they are, being on their way to another queue."""

    @property
    def pending(self) -> int:
        """All that are pending again."""
        return self.untouched + self.anew


async def release(queue: Queue, selection: Selection) -> ReleaseResult:
    """Give the claimed jobs of a selection back. Their holders learn of it when they next renew.

    Page by page: whatever dies in the middle, calling again does the rest. Of a page that died between being cancelled
    and given its attempts, the jobs are cancelled: `retry` does the rest.
    """
    claimed = msgspec.structs.replace(selection, states=frozenset({State.CLAIMED}))
    holders = await _holders(queue)
    done = ReleaseResult()
    after = ""
    while page := await queue.jobs(claimed, after=after, limit=_PAGE):
        after = page[-1].id
        staying = [job for job in page if (job.worker or "").startswith(MOVER)]
        going = [job for job in page if not (job.worker or "").startswith(MOVER)]
        untouched = await _give_back(queue, going, holders)
        anew = await _begin_anew(queue, [job for job in going if job.id not in untouched])
        done = ReleaseResult(
            untouched=done.untouched + len(untouched), anew=done.anew + anew, moving=done.moving + len(staying)
        )
    return done


async def _holders(queue: Queue) -> dict[str, list[WorkerId]]:
    """Who is on the roll, by label; several may have the same."""
    known: defaultdict[str, list[WorkerId]] = defaultdict(list)
    registry = find(queue, WorkerRegistry)
    if registry is not None:
        for each in await registry.present_workers():
            known[each.worker.label].append(each.worker)
    return known


async def _give_back(queue: Queue, jobs: Sequence[Job], holders: dict[str, list[WorkerId]]) -> set[str]:
    """The ids of those that their holders' leases could be settled of."""
    given: set[str] = set()
    # Where a medium asks for the epoch alone, anybody will do.
    tries = {job.id: [*holders.get(job.worker or "", ()), WorkerId(job.worker or "", "")] for job in jobs}
    while left := [job for job in jobs if job.id not in given and tries[job.id]]:
        settlements = [Settlement(Lease(job, tries[job.id].pop(0), 0.0), GivenBack()) for job in left]
        answers = await queue.settle(settlements)
        given |= {job.id for job, accepted in zip(left, answers, strict=True) if accepted}
    return given


async def _begin_anew(queue: Queue, jobs: Sequence[Job]) -> int:
    """How many of these were still claimed, and are pending now."""
    if not jobs:
        return 0
    meant = Selection(ids=frozenset(job.id for job in jobs), states=frozenset({State.CLAIMED}))
    # Only what is held as it was read: what has been settled or claimed anew since is as the caller wants it.
    epochs = {job.id: job.epoch for job in jobs}
    same = [job for job in await queue.jobs(meant, limit=len(jobs)) if job.epoch == epochs[job.id]]
    if not same:
        return 0
    ids = frozenset(job.id for job in same)
    await queue.cancel(Selection(ids=ids, states=frozenset({State.CLAIMED})))
    return await queue.retry(Selection(ids=ids, states=frozenset({State.CANCELLED})))
