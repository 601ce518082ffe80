"""Change what becomes of jobs: submit, retry, cancel, pause, resume, archive."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING

from longshore.api.local_runs import source_from
from longshore.api.loops import wait_for
from longshore.api.run_name import run_id

if TYPE_CHECKING:
    from longshore.api.run_name import Run
    from longshore.extensions.archive import Month
    from longshore.queue import Selection
    from longshore.runs.control.bulk_action import BulkAction
    from longshore.runs.control.job_selection import Names
    from longshore.runs.scrapers.registry import Jobs
    from longshore.runs.submit.submission import Submission


def submit(
    kind: str,
    urls: Jobs,
    *,
    run: Run | None = None,
    priority: int = 0,
    partition: str = "",
    identity: Sequence[str] | None = None,
    max_depth: int | None = None,
    max_jobs: int | None = None,
    queue: str | None = None,
) -> Submission:
    """Put jobs into the queue for workers anywhere; the same as `longshore submit`.

    Return `run_id`, and how many jobs were `submitted` and how many `duplicates` left out. Submitting again is
    harmless. `urls` is what `run` takes, `identity` names the payload fields that make jobs different, and `max_depth`
    and `max_jobs` limit follow-on jobs.
    """
    from longshore.runs.local.growth_options import growth_limits
    from longshore.runs.submit.submit_run import RunAddition, submit_run
    from longshore.settings import resolve

    identities = {} if identity is None else {kind: tuple(identity)}
    limits = growth_limits(max_depth, max_jobs)
    to = RunAddition(kind, None if run is None else run_id(run), priority, partition, identities, limits)
    source = source_from(urls)
    to.check(source)
    return wait_for(submit_run(resolve({"queue": queue}), source, to))


def retry_jobs(
    ids: Names | None = None,
    *,
    run: Run | None = None,
    kind: Names | None = None,
    partition: Names | None = None,
    state: Names | None = None,
    error: str | None = None,
    older_than: timedelta | None = None,
    queue: str | None = None,
) -> int:
    """Give failed jobs all their attempts again, and return how many; the same as `longshore retry`.

    All conditions must hold, and at least one must be given. `error` is a shell pattern for the type or the message
    of the last failure. Cancelled jobs are retried too, if `state` or an id names them. (`longshore.retry` is a
    decorator.)
    """
    from longshore.runs.control.bulk_action import BulkAction
    from longshore.runs.control.job_selection import select_jobs

    name = None if run is None else run_id(run)
    chosen = select_jobs(
        ids=ids, run=name, kind=kind, partition=partition, state=state, error=error, older_than=older_than
    )
    return wait_for(_change(BulkAction.RETRY, chosen, queue))


def cancel(
    ids: Names | None = None,
    *,
    run: Run | None = None,
    kind: Names | None = None,
    partition: Names | None = None,
    state: Names | None = None,
    error: str | None = None,
    older_than: timedelta | None = None,
    queue: str | None = None,
) -> int:
    """Cancel jobs that are not finished, and return how many; the same as `longshore cancel`.

    All conditions must hold, and at least one must be given. A worker that holds a cancelled job learns of it within a
    third of its lease.
    """
    from longshore.runs.control.bulk_action import BulkAction
    from longshore.runs.control.job_selection import select_jobs

    name = None if run is None else run_id(run)
    chosen = select_jobs(
        ids=ids, run=name, kind=kind, partition=partition, state=state, error=error, older_than=older_than
    )
    return wait_for(_change(BulkAction.CANCEL, chosen, queue))


async def _change(action: BulkAction, chosen: Selection, queue: str | None) -> int:
    from longshore.errors import UsageError
    from longshore.queue import Selection
    from longshore.runs.control.job_selection import selected_number
    from longshore.runs.open_queue import open_existing
    from longshore.settings import resolve

    if chosen == Selection():
        raise UsageError(
            f"Say which jobs to {action}: ids, or any of run, kind, partition, state, error and older_than."
        )
    narrowed, settings = action.narrowed(chosen), resolve({"queue": queue})
    async with open_existing(settings) as opened:
        # A run or a job that does not exist is an error, not "no jobs".
        await selected_number(opened, narrowed, settings)
        return await action.call(opened, narrowed)


def pause(run: Run | None, *, queue: str | None = None) -> bool:
    """Let no worker begin a job of the run, and return False if it was paused before; None pauses the whole queue.

    Workers finish the jobs they hold. Raise `NotFoundError` if the queue does not have the run.
    """
    return wait_for(_pause(run, queue, pausing=True))


def resume(run: Run | None, *, queue: str | None = None) -> bool:
    """Let a paused run go on, and return False if it was not paused; None undoes `pause(None)`."""
    return wait_for(_pause(run, queue, pausing=False))


async def _pause(run: Run | None, queue: str | None, *, pausing: bool) -> bool:
    from longshore.runs.control.pause import EVERYTHING, change_pause
    from longshore.runs.open_queue import open_existing
    from longshore.settings import resolve

    settings = resolve({"queue": queue})
    async with open_existing(settings) as opened:
        name = EVERYTHING if run is None else run_id(run)
        return await change_pause(opened, name, settings, pausing=pausing)


def archive(
    *,
    older_than: timedelta = timedelta(days=30),
    run: Run | None = None,
    kind: Names | None = None,
    partition: Names | None = None,
    queue: str | None = None,
) -> tuple[int, list[Month]]:
    """Move old completed jobs to the archive; return how many, and what the archive has by month.

    The same as `longshore archive`. Raise `UsageError` if the queue's medium has no archive.
    """
    from longshore.job import State
    from longshore.runs.control.job_selection import select_jobs

    name = None if run is None else run_id(run)
    done = State.COMPLETED
    chosen = select_jobs(run=name, kind=kind, partition=partition, state=done, older_than=older_than)
    return wait_for(_archive(chosen, queue))


async def _archive(chosen: Selection, queue: str | None) -> tuple[int, list[Month]]:
    from longshore.runs.control.archive import archive_of, pack
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.settings import resolve

    settings = resolve({"queue": queue})
    async with open_existing(settings) as opened:
        found = archive_of(opened, settings)
        if chosen.run is not None:
            await counts_of(opened, chosen.run, settings)
        return await pack(found, chosen), await found.archived()
