"""Release claimed jobs from their holders: the jobs become pending again.

The queue has no call for that. We settle the job in place of its holder, with the outcome `Released` under the holder's
own lease: no attempt counts, and the fence rejects what the holder settles later. Some media check the holder's
identity, which is known only for workers in the worker registry. Jobs of other holders are cancelled and then retried,
which is the only other way; for an instant such a job is finished, and its run may be finished, too.

Jobs held by a move between two queues stay with it: they may have arrived in the target, and would be worked on twice.
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
    """Numbers of released jobs. Jobs that were settled meanwhile are in none of them."""

    untouched: int = 0
    """Pending again; the interrupted attempt does not count."""
    restarted: int = 0
    """Pending again with all attempts available; earlier attempts no longer count."""
    moving: int = 0
    """Left unchanged because a move to another queue holds them."""

    @property
    def pending(self) -> int:
        """All jobs that are pending again."""
        return self.untouched + self.restarted


async def release(queue: Queue, selection: Selection) -> ReleaseResult:
    """Release the claimed jobs of a selection. Their holders learn of it when they next renew.

    It works page by page: if the process dies in the middle, calling again does the rest. If it dies between cancelling
    and retrying a page, the jobs of that page stay cancelled, and `retry` makes them pending.
    """
    claimed = msgspec.structs.replace(selection, states=frozenset({State.CLAIMED}))
    holders = await _holders(queue)
    done = ReleaseResult()
    after = ""
    while page := await queue.jobs(claimed, after=after, limit=_PAGE):
        after = page[-1].id
        staying = [job for job in page if (job.worker or "").startswith(MOVER)]
        going = [job for job in page if not (job.worker or "").startswith(MOVER)]
        untouched = await _settle_released(queue, going, holders)
        restarted = await _cancel_and_retry(queue, [job for job in going if job.id not in untouched])
        done = ReleaseResult(
            untouched=done.untouched + len(untouched),
            restarted=done.restarted + restarted,
            moving=done.moving + len(staying),
        )
    return done


async def _holders(queue: Queue) -> dict[str, list[WorkerId]]:
    """Return the workers in the registry by label; several may share a label."""
    known: defaultdict[str, list[WorkerId]] = defaultdict(list)
    registry = find(queue, WorkerRegistry)
    if registry is not None:
        for each in await registry.present_workers():
            known[each.worker.label].append(each.worker)
    return known


async def _settle_released(queue: Queue, jobs: Sequence[Job], holders: dict[str, list[WorkerId]]) -> set[str]:
    """Settle the jobs as released under their holders' leases. Return the ids of those that the queue accepted."""
    released: set[str] = set()
    # Some media check only the epoch and accept any holder.
    tries = {job.id: [*holders.get(job.worker or "", ()), WorkerId(job.worker or "", "")] for job in jobs}
    while left := [job for job in jobs if job.id not in released and tries[job.id]]:
        settlements = [Settlement(Lease(job, tries[job.id].pop(0), 0.0), GivenBack()) for job in left]
        answers = await queue.settle(settlements)
        released |= {job.id for job, accepted in zip(left, answers, strict=True) if accepted}
    return released


async def _cancel_and_retry(queue: Queue, jobs: Sequence[Job]) -> int:
    """Cancel and retry those jobs that are still claimed. Return how many are pending now."""
    if not jobs:
        return 0
    claimed = Selection(ids=frozenset(job.id for job in jobs), states=frozenset({State.CLAIMED}))
    # Only jobs under the same lease as when they were read: the others have been settled or claimed again since.
    epochs = {job.id: job.epoch for job in jobs}
    same = [job for job in await queue.jobs(claimed, limit=len(jobs)) if job.epoch == epochs[job.id]]
    if not same:
        return 0
    ids = frozenset(job.id for job in same)
    await queue.cancel(Selection(ids=ids, states=frozenset({State.CLAIMED})))
    return await queue.retry(Selection(ids=ids, states=frozenset({State.CANCELLED})))
