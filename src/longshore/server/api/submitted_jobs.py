"""The answer to a submission, job by job."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import msgspec

from longshore.extensions.find import require
from longshore.extensions.payloads import PayloadLookup
from longshore.job import JobName, NewJob
from longshore.server.served import Served
from longshore.stored import JsonObject


class SubmittedState(StrEnum):
    """The fate of a job that was submitted."""

    NEW = "new"
    DUPLICATE = "duplicate"
    """The queue has this job already, with the same payload."""
    COLLISION = "collision"
    """The queue has a job of the same run, kind and key with another payload. The given one was left out."""


class SubmittedJob(msgspec.Struct, frozen=True, kw_only=True):
    """One job of a submission."""

    state: SubmittedState
    key: str
    id: str | None
    """The id of the job that the queue has now."""


class SubmitAnswer(msgspec.Struct, frozen=True, omit_defaults=True):
    """`new + duplicates` is the number of jobs given; a collision counts as a duplicate."""

    new: int
    duplicates: int
    items: list[SubmittedJob] = []
    """In order, if they were asked for."""


async def submit_each(served: Served, jobs: Sequence[NewJob]) -> SubmitAnswer:
    """Submit jobs, and tell for each what became of it.

    A job that another process submits at the same moment, with the same payload, may be called new by both.
    """
    lookup = require(served.queue, PayloadLookup, "cannot tell which jobs are new. Leave `items` out.")
    before = await _payloads(lookup, jobs)
    submitted = await served.submit(jobs)
    after = await _payloads(lookup, jobs)
    items = []
    for job in jobs:
        name = (job.run, JobName(job.kind, job.key))
        payload, job_id = after.get(name, (job.payload, None))
        if payload != job.payload:
            state = SubmittedState.COLLISION
        elif name in before:
            state = SubmittedState.DUPLICATE
        else:
            state = SubmittedState.NEW
            before[name] = (payload, job_id)  # the same job again in this call is a duplicate
        items.append(SubmittedJob(state=state, key=job.key, id=job_id))
    return SubmitAnswer(submitted.new, submitted.duplicates, items)


async def _payloads(
    lookup: PayloadLookup, jobs: Sequence[NewJob]
) -> dict[tuple[str, JobName], tuple[JsonObject, str | None]]:
    """Return payload and id of those of the jobs that the queue has."""
    by_run: dict[str, list[JobName]] = {}
    for job in jobs:
        by_run.setdefault(job.run, []).append(JobName(job.kind, job.key))
    found = {}
    for run, names in by_run.items():
        payloads, ids = await lookup.payloads(run, names), await lookup.job_ids(run, names)
        for name, payload, job_id in zip(names, payloads, ids, strict=True):
            if payload is not None:
                found[run, name] = (payload, job_id)
    return found
