"""Jobs to choose from, and everything about the one that was chosen."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from longshore.errors import NotFoundError
from longshore.job import Attempt, Job, State
from longshore.queue import Queue, Selection
from longshore.runs.watch.failures import subject
from longshore.url import mask_urls

SHOWN = 200
_READ = 20_000
"""Jobs that are read at most in search of those to show."""
_PAGE = 200
_LONGEST = 300
_MADE_KEY = 64
_ORDER = (State.CLAIMED, State.FAILED, State.PENDING, State.CANCELLED, State.COMPLETED)
"""What people look for first."""


class JobRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job, in one line."""

    id: str
    run: str
    kind: str
    state: State
    attempts: int
    max_attempts: int
    what: str
    """What it is about, for people."""
    failure: str
    """What it last failed of; empty for one that never did."""


class FoundJobs(msgspec.Struct, frozen=True, kw_only=True):
    """Jobs that match: those under way first, then the failed; the completed last. Of one state, oldest first."""

    rows: tuple[JobRow, ...]
    read: int
    """How many were read to find these."""
    more: bool
    """Whether there may be others that match."""


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """Which jobs: what the queue can select, and what must be read to be known."""

    title: str
    """What they are, for people."""
    selection: Selection
    accepts: Callable[[Job], bool] | None = None


class Detail(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the queue knows about one job."""

    job: Job
    history: tuple[Attempt, ...]


async def find(queue: Queue, wanted: Wanted, text: str = "") -> FoundJobs:
    """The jobs wanted in which this text occurs somewhere. Bounded: not all of very many are read."""
    # By id: a job that moves on while its states are read one after another is met in two of them.
    rows: dict[str, JobRow] = {}
    read = 0
    for state in _states(wanted.selection, text):
        selection, after = msgspec.structs.replace(wanted.selection, states=frozenset({state})), ""
        while page := await queue.jobs(selection, after=after, limit=_PAGE):
            for job in page:
                read += 1
                if (wanted.accepts is None or wanted.accepts(job)) and _contains(job, text):
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
    """Everything about a job. `NotFoundError` where there is none of this id."""
    found = await queue.jobs(Selection(ids=frozenset({job_id})), limit=1)
    if not found:
        raise NotFoundError(f"There is no job '{job_id}' any more: it was pruned, archived or moved away.")
    return Detail(job=found[0], history=tuple(await queue.history(job_id)))


def row_of(job: Job) -> JobRow:
    """The job in one line."""
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


def _contains(job: Job, text: str) -> bool:
    if not text:
        return True
    failure = job.failure
    failed = (failure.error_type, failure.exception, failure.message) if failure else ()
    places = (job.id, job.run, job.kind, job.state, job.partition, job.host, job.worker or "", *failed, subject(job))
    # A key that was made holds every short text by chance; nobody looks for the middle of one.
    by_key = job.key.startswith(text) if len(job.key) == _MADE_KEY else text.lower() in job.key.lower()
    return by_key or any(text.lower() in place.lower() for place in places)
