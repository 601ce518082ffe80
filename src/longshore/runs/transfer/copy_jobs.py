"""Copy jobs from one queue to another with their state, attempts, results, epochs and history.

A copy does not change the source. Each batch is written atomically, so that a copy that died is resumed by copying
again: the target recognises jobs by run, kind and key, and never overwrites them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from longshore.errors import UsageError
from longshore.extensions.find import find, require
from longshore.extensions.shared_state import SharedState
from longshore.extensions.transfer import Carried, TakesOver
from longshore.job import Attempt, Job, State
from longshore.lease import Held, Lease, WorkerId
from longshore.queue import Queue, Selection
from longshore.runs.control.growth_limits import GrowthLimits, limits_of, set_limits
from longshore.wrappers.growth_limits import LIMITS, decode_entry

BATCH = 1000
"""Jobs per call, and held in memory at once."""

MOVER = "copy_"
"""Prefix of the labels of workers that claim for a move."""

MOVED_TO = "moved_to"
"""The only field in the result of a moved job in the source, between its arrival in the target and its removal."""

Progress = Callable[[int], None]
"""Called after every batch with the number of jobs already processed."""


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a copy. `new + known` is the number of jobs in the source, without those that were moved away."""

    new: int = 0
    known: int = 0
    """Jobs that the target had before; they are unchanged."""
    held: int = 0
    """Jobs that a worker held when they were read. If they are new in the target, they are pending there."""


def taking_over(queue: Queue) -> TakesOver:
    """Return the extension by which the queue takes over jobs. Raise `UsageError` for a medium without it."""
    lacking = "cannot take over jobs of another queue. Copy to sqlite://, dir:// or postgresql:// instead."
    return require(queue, TakesOver, lacking)


async def refuse_known_runs(source: Queue, target: Queue, run: str | None) -> None:
    """Raise `UsageError` if the target has jobs of a run to be copied, so that runs are not mixed by accident."""
    coming = {count.run for count in await source.stats(run)}
    there = sorted(coming & {count.run for count in await target.stats(run)})
    if there:
        named = f"run '{there[0]}'" if there[0] else "jobs without a run"
        more = f" (and of {len(there) - 1} more)" if len(there) > 1 else ""
        raise UsageError(
            f"The target has {'jobs of ' if there[0] else ''}{named}{more} already. If they came from here, --resume "
            "copies the rest and leaves them unchanged; if not, choose another target."
        )


async def copy_limits(source: Queue, target: Queue, run: str | None) -> None:
    """Give the run, or every run, the growth limits that it has in `source`, unless `target` has some for it."""
    state = find(source, SharedState)
    if state is None:
        return
    for entry in (await state.read_entries(LIMITS, None if run is None else frozenset({run}))).entries:
        limits = decode_entry(entry, GrowthLimits)
        there = find(target, SharedState)
        if limits and (there is None or not await limits_of(there, entry.name)):
            await set_limits(target, entry.name, limits)


async def copy(source: Queue, target: Queue, run: str | None, *, progress: Progress) -> Copied:
    """Copy every job of a run, or of all runs, oldest first.

    A job is copied in the state in which it is read. A claimed job arrives pending, because it has no holder there.
    """
    receiver = taking_over(target)
    await copy_limits(source, target, run)
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
    """Return whether a move brought the job to another queue but died before it removed the job here."""
    return (
        job.state is State.COMPLETED
        and (job.worker or "").startswith(MOVER)
        and isinstance(job.result, dict)
        and set(job.result) == {MOVED_TO}
    )


async def carried(source: Queue, jobs: Sequence[Job]) -> list[Carried]:
    """Return the jobs with their histories up to the state in which they were read."""
    return [Carried(job, tuple(await _history(source, job))) for job in jobs]


async def _history(source: Queue, job: Job) -> list[Attempt]:
    # A claim that is in flight or succeeded has no entry, so that most jobs need no query. Later entries are left out:
    # workers may have gone on since the job was read.
    last = job.epoch - 1 if job.state in {State.CLAIMED, State.COMPLETED} else job.epoch
    return [attempt for attempt in await source.history(job.id) if attempt.epoch <= last] if last > 0 else []


async def leases_of(queue: Queue, worker: WorkerId, held: Sequence[Held]) -> list[Lease]:
    """Return the leases of the jobs that `renew` says a worker holds, without those that were lost since."""
    there = await jobs_by_id(queue, [each.job_id for each in held])
    jobs = [(there[each.job_id], each.epoch) for each in held if each.job_id in there]
    return [Lease(job, worker, 0.0) for job, epoch in jobs if (job.state, job.epoch) == (State.CLAIMED, epoch)]


async def jobs_by_id(queue: Queue, ids: Sequence[str]) -> dict[str, Job]:
    """Return those of these jobs that the queue has, by id."""
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
