"""Admission: which jobs a process that holds no claim may add to a run as follow-on jobs.

Reparsing a completed job and merging an offline checkout add jobs below a job that is settled already. Quota for new
jobs counts while the claim it was taken for is held (see `job_quota`); these have none. So the process registers as a
submission to the run, and its quota counts while it is registered. A process that stands still for longer than the
lease of a submission between asking and adding may let the run exceed `--max-jobs` by the jobs of that one call.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from longshore.clock import Clock
from longshore.extensions.submissions import SubmissionNotice
from longshore.job import Job
from longshore.lease import Held
from longshore.wrappers.job_quota import SUBMITTER
from longshore.wrappers.worker_queue import WorkerQueue


class Admission:
    """Admits follow-on jobs to their runs, from the beginning of an `async with` to its end."""

    def __init__(self, queue: WorkerQueue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._notices: dict[str, SubmissionNotice] = {}
        self._registered = AsyncExitStack()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._registered.aclose()

    async def fitting(self, jobs: Sequence[Job]) -> list[Job]:
        """Return the jobs that may join their runs, in order, for a caller that adds them before it asks again."""
        by_run: defaultdict[str, list[Job]] = defaultdict(list)
        for job in jobs:
            by_run[job.run].append(job)
        fitting: set[int] = set()
        for run, its_jobs in by_run.items():
            if run not in self._notices:
                self._notices[run] = await self._registered.enter_async_context(
                    SubmissionNotice(self._queue, run, self._clock)
                )
                await self._notices[run].begin()
                await self._queue.limits.learn(run)
            claim = Held(self._notices[run].incarnation, SUBMITTER)
            fitting.update(map(id, await self._queue.limits.fitting(run, its_jobs, claim)))
        return [job for job in jobs if id(job) in fitting]
