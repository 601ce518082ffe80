"""How well the fleet does: completion, success, claims, utilisation."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import longshore
from longshore import Job
from longshore.extensions.claim_stats import ClaimStats
from longshore.extensions.find import find


@dataclass(frozen=True)
class Kpis:
    """The figures of one run. A rate is None if there is nothing yet that it could be the rate of."""

    published: int
    completed: int
    failed: int
    workers: int
    jobs_per_hour: float | None
    completion_rate: float | None
    """Completed jobs among the published ones."""
    success_rate: float | None
    """Completed jobs among those that completed or failed."""
    claim_success_rate: float | None
    """Claims that no other machine was faster with, among all attempts to claim. Above 30 % is healthy."""
    utilisation: float | None
    """The time that workers spent on finished jobs, as a share of the time between the first and last they had."""

    def lines(self) -> list[str]:
        """Return the figures for people, a line each."""
        speed = "–" if self.jobs_per_hour is None else f"{self.jobs_per_hour:,.0f}"
        return [
            f"Completion rate     {_percent(self.completion_rate)}  {self.completed:,} of {self.published:,} jobs",
            f"Success rate        {_percent(self.success_rate)}  {self.failed:,} failed for good",
            f"Claim success rate  {_percent(self.claim_success_rate)}  healthy above 30 %",
            f"Utilisation         {_percent(self.utilisation)}  of {self.workers:,} workers",
            f"Jobs an hour        {speed:>7}",
        ]


def kpis(run: str, queue: str) -> Kpis:
    """Return the figures of a run. Raise `NotFoundError` if the queue does not have it."""
    count = longshore.stats(run, queue=queue)
    busy, spans = _times(longshore.jobs(run, state=["completed", "failed"], queue=queue))
    available = sum(end - begin for begin, end in spans.values())
    hours = (max(end for _, end in spans.values()) - min(begin for begin, _ in spans.values())) / 3600 if spans else 0
    published = count.completed + count.failed + count.cancelled + count.remaining
    ended = count.completed + count.failed
    return Kpis(
        published=published,
        completed=count.completed,
        failed=count.failed,
        workers=len(spans),
        jobs_per_hour=ended / hours if hours else None,
        completion_rate=count.completed / published if published else None,
        success_rate=count.completed / ended if ended else None,
        claim_success_rate=asyncio.run(_claim_success(queue)) if ended else None,
        utilisation=min(1.0, busy / available) if available else None,
    )


def _times(jobs: Iterable[Job]) -> tuple[float, dict[str, tuple[float, float]]]:
    """Return the seconds spent on these jobs, and from when to when each worker had some."""
    busy = 0.0
    spans: defaultdict[str, tuple[float, float]] = defaultdict(lambda: (float("inf"), 0.0))
    for job in jobs:
        if job.worker and job.settled_at and job.seconds is not None:
            begin, end = spans[job.worker]
            busy += job.seconds
            spans[job.worker] = (min(begin, job.settled_at - job.seconds), max(end, job.settled_at))
    return busy, dict(spans)


async def _claim_success(queue: str) -> float | None:
    opened = await longshore.open_queue(queue)
    try:
        counted = find(opened, ClaimStats)
        return None if counted is None else await counted.claim_success_rate()
    finally:
        await opened.close()


def _percent(share: float | None) -> str:
    return "     –" if share is None else f"{share:6.1%}"
