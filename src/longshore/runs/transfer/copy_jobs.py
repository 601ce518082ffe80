"""Jobs from one queue into another as they stand: state, attempts, results, epochs and history.

A copy leaves the source alone. It goes batch by batch, each whole or not there, so that one that died is gone on with
by copying again: what has arrived is known there by run, kind and key, and is never overwritten.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from longshore.errors import UsageError
from longshore.extensions.find import require
from longshore.extensions.transfer import Carried, TakesOver
from longshore.job import Attempt, Job, State
from longshore.lease import Held, Lease, WorkerId
from longshore.queue import Queue, Selection

BATCH = 1000
"""Jobs to a call, and so in memory at once."""

MOVER = "copy_"
"""How the labels of workers that claim for a move begin."""

MOVED_TO = "moved_to"
"""The only field of the result that a moved job has in the source, for the instant between arriving and leaving."""

Progress = Callable[[int], None]
"""Called after every batch with the number of jobs gone through so far."""


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """What a copy did. `new + known` is the number of jobs the source had, without those that have left it."""

    new: int = 0
    known: int = 0
    """Were there before, and are as they were."""
    held: int = 0
    """Were in the hands of a worker when they were read. Where they are new, they are pending."""


def taking_over(queue: Queue) -> TakesOver:
    """Return the extension by which the queue takes over jobs. Raise `UsageError` for a medium without it."""
    lacking = "cannot take over jobs of another one. Copy to sqlite://, dir:// or postgresql:// instead."
    return require(queue, TakesOver, lacking)


async def refuse_known_runs(source: Queue, target: Queue, run: str | None) -> None:
    """`UsageError` where the target has a job of a run that is to be copied: nothing is ever mixed by accident."""
    coming = {count.run for count in await source.stats(run)}
    there = sorted(coming & {count.run for count in await target.stats(run)})
    if there:
        named = f"run '{there[0]}'" if there[0] else "jobs without a run"
        more = f" (and of {len(there) - 1} more)" if len(there) > 1 else ""
        raise UsageError(
            f"The target has {'jobs of ' if there[0] else ''}{named}{more} already. If they came from here, --resume "
            "goes on and leaves what has arrived as it is; if not, take another target."
        )


async def copy(source: Queue, target: Queue, run: str | None, *, progress: Progress) -> Copied:
    """Copy every job of a run, or of all runs, oldest first.

    A job is copied as it stands when it is read. One that is claimed then arrives pending, for nobody holds it there.
    """
    receiver = taking_over(target)
    done = Copied()
    after = ""
    while page := await source.jobs(Selection(run=run), after=after, limit=BATCH):
        coming = [job for job in page if not has_left(job)]
        answer = await receiver.take_over(await carried(source, coming))
        done = Copied(
            new=done.new + answer.new,
            known=done.known + answer.duplicates,
            held=done.held + sum(job.state is State.CLAIMED for job in coming),
        )
        progress(done.new + done.known)
        after = page[-1].id
    return done


def has_left(job: Job) -> bool:
    """Whether the job is in another queue, and only what a move that died there left behind is still here."""
    return (
        job.state is State.COMPLETED
        and (job.worker or "").startswith(MOVER)
        and isinstance(job.result, dict)
        and set(job.result) == {MOVED_TO}
    )


async def carried(source: Queue, jobs: Sequence[Job]) -> list[Carried]:
    """The jobs with their histories, as far as these belong to the job as it was read."""
    return [Carried(job, tuple(await _history(source, job))) for job in jobs]


async def _history(source: Queue, job: Job) -> list[Attempt]:
    # The claim that is under way, or that succeeded, has no entry, so that most jobs need not be asked about. Nor does
    # a later one belong to the job as it was read: the source may be at work meanwhile.
    last = job.epoch - 1 if job.state in {State.CLAIMED, State.COMPLETED} else job.epoch
    return [attempt for attempt in await source.history(job.id) if attempt.epoch <= last] if last > 0 else []


async def leases_of(queue: Queue, worker: WorkerId, held: Sequence[Held]) -> list[Lease]:
    """What `renew` says that a worker holds, as leases to settle with; without what was lost since."""
    there = await jobs_by_id(queue, [each.job_id for each in held])
    jobs = [(there[each.job_id], each.epoch) for each in held if each.job_id in there]
    return [Lease(job, worker, 0.0) for job, epoch in jobs if (job.state, job.epoch) == (State.CLAIMED, epoch)]


async def jobs_by_id(queue: Queue, ids: Sequence[str]) -> dict[str, Job]:
    """Those of these jobs that are there."""
    found: dict[str, Job] = {}
    after = ""
    selection = Selection(ids=frozenset(ids))
    while len(found) < len(selection.ids or ()):
        page = await queue.jobs(selection, after=after, limit=BATCH)
        if not page:
            break
        found |= {job.id: job for job in page}
        after = page[-1].id
    return found
