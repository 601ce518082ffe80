"""The lease tokens that this process was given: only with its token can anything be said about a claimed job.

They are known to the whole process, because a worker settles over a second connection, too, and because whatever
belongs to an attempt besides its outcome (records, pages, a failure bundle) names the job and not the lease.
"""

from __future__ import annotations

from collections.abc import Iterable

from longshore.job import Job
from longshore.lease import WorkerId

_MOST = 200_000
"""Far more than a process holds. Beyond it the oldest are forgotten; a server gives the token of a held lease again."""

_tokens: dict[tuple[str, str, int], tuple[WorkerId, str]] = {}


def remember(job: Job, worker: WorkerId, token: str) -> None:
    """Remember the token of a lease, until it is forgotten."""
    if len(_tokens) >= _MOST:
        for name in list(_tokens)[: _MOST // 10]:
            _tokens.pop(name, None)
    _tokens[job.queue, job.id, job.epoch] = worker, token


def token_of(job: Job, worker: WorkerId | None = None) -> str | None:
    """Return the token of a job as it was claimed; None if it is not known, or was given to another worker."""
    holder, token = _tokens.get((job.queue, job.id, job.epoch), (worker, None))
    return token if worker is None or holder == worker else None


def forget(jobs: Iterable[Job]) -> None:
    """Forget the tokens of jobs that are settled."""
    for job in jobs:
        _tokens.pop((job.queue, job.id, job.epoch), None)
