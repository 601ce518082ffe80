"""The values of the page of one job."""

from __future__ import annotations

from typing import Any

import msgspec

from longshore.job import Attempt, Job, State
from longshore.observe.failure_fields import own_frames_first
from longshore.server.live.live_reader import TopicSnapshot
from longshore.system.printable import printable_lines
from longshore.top.find_jobs import Detail, row_of

_TRACEBACK = 40
"""The last lines of a traceback that are shown."""


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One entry of the timeline."""

    sort: str
    """`submitted`, `failed`, `claimed`, `waits`, `completed`, `cancelled`."""
    at: float | None = None
    worker: str = ""
    seconds: float | None = None
    title: str = ""
    message: str = ""
    traceback: str = ""


def detail_in(snapshot: TopicSnapshot) -> Detail:
    """Return the job of a snapshot."""
    assert isinstance(snapshot.value, Detail)  # noqa: S101  the topic of this page has no other values
    return snapshot.value


def job_context(snapshot: TopicSnapshot) -> dict[str, Any]:
    """Return the values of the part that changes by itself."""
    detail = detail_in(snapshot)
    job = detail.job
    return {
        "job": job,
        "subject": row_of(job).what,
        "steps": steps_of(detail),
        "may_retry": job.state in {State.FAILED, State.CANCELLED},
        "may_cancel": job.state in {State.PENDING, State.CLAIMED},
        "may_release": job.state is State.CLAIMED,
        "finished": job.state is State.COMPLETED,
    }


def steps_of(detail: Detail) -> list[Step]:
    """Return what happened to a job, oldest first."""
    job = detail.job
    steps = [Step(sort="submitted", at=job.submitted_at or None, title=_origin(job))]
    steps += [_failed(attempt) for attempt in detail.history]
    match job.state:
        case State.CLAIMED:
            steps.append(Step(sort="claimed", worker=job.worker or "", title="under way"))
        case State.PENDING:
            steps.append(Step(sort="waits", at=job.not_before, title="waits until then" if job.not_before else "waits"))
        case State.COMPLETED:
            worker = job.worker or ""
            steps.append(
                Step(sort="completed", at=job.settled_at, worker=worker, seconds=job.seconds, title="completed")
            )
        case State.CANCELLED:
            steps.append(Step(sort="cancelled", at=job.settled_at, title="cancelled"))
        case State.FAILED:
            if not detail.history and job.failure is not None:
                steps.append(Step(sort="failed", at=job.settled_at, worker=job.worker or "", title=job.failure.message))
    return steps


def _origin(job: Job) -> str:
    return f"submitted by the {job.parent.kind} job that found it" if job.parent else "submitted"


def _failed(attempt: Attempt) -> Step:
    failure = attempt.failure
    lines = own_frames_first(printable_lines(failure.traceback)).splitlines()
    return Step(
        sort="failed",
        at=attempt.ended_at,
        worker=attempt.worker,
        seconds=attempt.seconds,
        title=failure.exception_name or failure.error_type,
        message=printable_lines(failure.message),
        traceback="\n".join(lines[-_TRACEBACK:]),
    )
