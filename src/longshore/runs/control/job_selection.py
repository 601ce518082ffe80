"""The selection of jobs that a person or a script names, and its size."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from longshore.errors import NotFoundError, UsageError
from longshore.job import Attempt, Job, State
from longshore.queue import Queue, Selection, each_job
from longshore.runs.control.bulk_action import size_of
from longshore.runs.control.job_filter import JobFilter
from longshore.runs.open_queue import counts_of, open_existing
from longshore.settings import Settings
from longshore.url import mask_url

Names = str | Iterable[str]
"""One name, or several."""


def select_jobs(
    *,
    ids: Names | None = None,
    run: str | None = None,
    kind: Names | None = None,
    partition: Names | None = None,
    state: Names | None = None,
    error: str | None = None,
    older_than: timedelta | None = None,
) -> Selection:
    """Return the jobs for which all of these hold. Raise `UsageError` for a state that there is not."""
    states = _names(state)
    for name in states or ():
        if name not in list(State):
            raise UsageError(f"There is no state '{name}'. The states are: {', '.join(State)}.")
    return Selection(
        run=run,
        ids=_names(ids),
        kinds=_names(kind),
        partitions=_names(partition),
        states=None if states is None else frozenset(State(name) for name in states),
        error=error,
        older_than=older_than,
    )


def _names(given: Names | None) -> frozenset[str] | None:
    if given is None:
        return None
    return frozenset({given} if isinstance(given, str) else given)


async def selected_number(queue: Queue, chosen: Selection, settings: Settings) -> int:
    """Return the number of selected jobs. Raise `NotFoundError` for a run or an id that does not exist."""
    if chosen.run is not None:
        await counts_of(queue, chosen.run, settings)
    if chosen.ids is not None:
        found = {job.id async for job in each_job(queue, Selection(ids=chosen.ids))}
        if missing := sorted(chosen.ids - found):
            raise NotFoundError(f"There is no job {', '.join(missing[:5])}. `longshore jobs` lists those there are.")
    return (await size_of(queue, JobFilter(selection=chosen))).jobs


async def find_job(settings: Settings, job_id: str) -> tuple[Job, list[Attempt]]:
    """Return a job and its earlier attempts. Raise `NotFoundError` if the queue has no such job."""
    async with open_existing(settings) as queue:
        found = await queue.jobs(Selection(ids=frozenset({job_id})), limit=1)
        if not found:
            where = mask_url(settings.queue)
            raise NotFoundError(f"There is no job '{job_id}' in {where}. `longshore jobs` lists those there are.")
        return found[0], await queue.history(job_id)
