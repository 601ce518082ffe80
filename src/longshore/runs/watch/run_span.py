"""How long a run took or has been going on, and how many jobs an hour it finished over that time."""

from __future__ import annotations

import msgspec

from longshore.observe.statistics import per_hour
from longshore.queue import Count, Queue, Selection, each_job

_READ = 10_000
"""The most jobs that are read for the end of a finished run."""


class RunSpan(msgspec.Struct, frozen=True):
    """The time from the first submitted job of a run to the last finished one; to now, while jobs are left."""

    seconds: float
    jobs_per_hour: float


async def run_span(queue: Queue, run: str, count: Count, now: float) -> RunSpan | None:
    """Return the time of a run with these counts. `now` is the time in seconds since 1970.

    None if the run has no finished job, or if it is finished and so large that its end would have to be searched for.
    """
    done = count.completed + count.failed
    first = await queue.jobs(Selection(run=run), limit=1)
    if not done or not first or (not count.remaining and count.total > _READ):
        return None
    ended = now
    if not count.remaining:
        ended = max([job.settled_at or 0.0 async for job in each_job(queue, Selection(run=run))], default=now)
    seconds = max(ended - first[0].submitted_at, 0.001)
    return RunSpan(seconds, per_hour(done, seconds))
