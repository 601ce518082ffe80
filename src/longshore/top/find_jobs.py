"""Find jobs for a list, and read all details of one job."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from longshore.errors import NotFoundError
from longshore.job import Attempt, Job, State
from longshore.queue import Queue, Selection
from longshore.runs.control.job_filter import contains
from longshore.runs.watch.failures import subject
from longshore.url import mask_urls

SHOWN = 200
_READ = 20_000
"""The most jobs that are read in one search."""
_PAGE = 200
_LONGEST = 300
_ORDER = (State.CLAIMED, State.FAILED, State.PENDING, State.CANCELLED, State.COMPLETED)
"""The order of the states in a list: the most interesting first."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job as one line of a list."""

    id: str
    run: str
    kind: str
    state: State
    attempts: int
    max_attempts: int
    what: str
    """The subject of the job, for people."""
    failure: str
    """Its last failure; empty if it never failed."""


class FoundJobs(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs that match: claimed ones first, then failed ones; completed ones last. Within a state, oldest first."""

    rows: tuple[JobRow, ...]
    read: int
    """The number of jobs read in the search."""
    more: bool
    """Whether further jobs may match."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A search: the part that the queue can select, and a filter on each job read."""

    title: str
    """The name of these jobs, for people."""
    selection: Selection
    accepts: Callable[[Job], bool] | None = None


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """All data of one job."""

    job: Job
    history: tuple[Attempt, ...]


async def find(queue: Queue, wanted: Wanted, text: str = "") -> FoundJobs:
    """Return the wanted jobs that contain `text`. Reads at most `_READ` jobs."""
    # By id: a job whose state changes during the search may be found in two states.
    rows: dict[str, JobRow] = {}
    read = 0
    for state in _states(wanted.selection, text):
        selection, after = msgspec.structs.replace(wanted.selection, states=frozenset({state})), ""
        while page := await queue.jobs(selection, after=after, limit=_PAGE):
            for job in page:
                read += 1
                if (wanted.accepts is None or wanted.accepts(job)) and contains(job, text):
                    rows[job.id] = row_of(job)
                if len(rows) == SHOWN or read == _READ:
                    return FoundJobs(rows=tuple(rows.values()), read=read, more=True)
            if len(page) < _PAGE:
                break
            after = page[-1].id
    return FoundJobs(rows=tuple(rows.values()), read=read, more=False)


def _states(selection: Selection, text: str) -> list[State]:
    named = frozenset({State(text)}) if text in list(State) else frozenset(State)
    return [state for state in _ORDER if state in named and state in (selection.states or State)]


async def detail_of(queue: Queue, job_id: str) -> Detail:
    """Return all data of a job. Raises `NotFoundError` if there is no job with this id."""
    found = await queue.jobs(Selection(ids=frozenset({job_id})), limit=1)
    if not found:
        raise NotFoundError(f"There is no job '{job_id}' any more: it was pruned, archived or moved.")
    return Detail(job=found[0], history=tuple(await queue.history(job_id)))


def row_of(job: Job) -> JobRow:
    """Return the job as one line of a list."""
    return JobRow(
        id=job.id,
        run=job.run,
        kind=job.kind,
        state=job.state,
        attempts=job.attempts,
        max_attempts=job.max_attempts,
        what=mask_urls(subject(job))[:_LONGEST],
        failure=f"{job.failure.error_type}: {job.failure.message}"[:_LONGEST] if job.failure else "",
    )
