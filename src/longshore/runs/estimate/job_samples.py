"""Samples of a run's jobs for an estimate, read a few pages at a time, in bounded memory.

The queue's counters give the number of jobs. Durations, retries, hosts and delays are only in the jobs themselves, of
which there may be millions.
"""

from __future__ import annotations

from collections import Counter

import msgspec

from longshore.job import State
from longshore.queue import Queue, Selection
from longshore.runs.watch.failures import failure_of

PAGE = 200
"""Jobs per page. Small, because results may be large and a page is held in memory."""
_FINISHED_PAGES = 5
_FAILED_PAGES = 2
_CLAIMED = 400
_HOSTS = 5000
"""Hosts that are counted by name; jobs of further hosts count only in the total."""
_WAITS = 200
_DONE = frozenset({State.COMPLETED, State.FAILED})


class Timings(msgspec.Struct, frozen=True, kw_only=True):
    """Times and failures of finished jobs."""

    seconds: tuple[float, ...] = ()
    """Durations of the attempts that settled them."""
    jobs: int = 0
    failures: int = 0
    """Their attempts that failed, except the last one of each job."""
    settled: tuple[float, ...] = ()
    """When they were settled, by the medium's clock."""
    began: float | None = None
    """When the first of them was started."""
    all_of_them: bool = False
    """Whether all finished jobs of the run are included."""


async def timings(queue: Queue, run: str, *, pages: int = _FINISHED_PAGES) -> Timings:
    """Return the timings of the first finished jobs of a run, from up to `pages` pages."""
    jobs, after = [], ""
    for _ in range(pages):
        page = await queue.jobs(Selection(run=run, states=_DONE), after=after, limit=PAGE)
        # Keep only the numbers: payloads and results may be large.
        jobs += [(job.seconds, job.attempts, job.settled_at) for job in page]
        if len(page) < PAGE:
            break
        after = page[-1].id
    return Timings(
        seconds=tuple(seconds for seconds, _, _ in jobs if seconds is not None),
        jobs=len(jobs),
        failures=sum(max(attempts - 1, 0) for _, attempts, _ in jobs),
        settled=tuple(at for _, _, at in jobs if at is not None),
        began=min((at - (seconds or 0.0) for seconds, _, at in jobs if at is not None), default=None),
        all_of_them=len(jobs) < pages * PAGE,
    )


async def with_recent(queue: Queue, run: str, known: Timings, oldest: str) -> Timings:
    """Return the timings with those of recently finished jobs added: jobs after the oldest one in flight."""
    page = await queue.jobs(Selection(run=run, states=_DONE), after=oldest, limit=PAGE)
    return msgspec.structs.replace(
        known,
        seconds=known.seconds + tuple(job.seconds for job in page if job.seconds is not None),
        jobs=known.jobs + len(page),
        failures=known.failures + sum(max(job.attempts - 1, 0) for job in page),
    )


class UnderWay(msgspec.Struct, frozen=True):
    """A claimed job."""

    job_id: str
    epoch: int
    host: str


async def under_way(queue: Queue, run: str) -> list[UnderWay]:
    """Return the claimed jobs of a run: all of them, or the first few hundred."""
    page = await queue.jobs(Selection(run=run, states=frozenset({State.CLAIMED})), limit=_CLAIMED)
    return [UnderWay(job.id, job.epoch, job.host) for job in page]


async def failing(queue: Queue, run: str) -> Counter[str]:
    """Return the errors of the first few hundred failed jobs of a run, counted by type and exception."""
    found: Counter[str] = Counter()
    after = ""
    for _ in range(_FAILED_PAGES):
        page = await queue.jobs(Selection(run=run, states=frozenset({State.FAILED})), after=after, limit=PAGE)
        found.update(failure_of(job).label for job in page)
        if len(page) < PAGE:
            break
        after = page[-1].id
    return found


class Waiting(msgspec.Struct, frozen=True, kw_only=True):
    """A summary of the pending jobs that were read."""

    read: int = 0
    failures: int = 0
    """Their failed attempts."""
    hosts: tuple[tuple[str, int], ...] = ()
    """The hosts with the most jobs, and the number of jobs."""
    delayed: int = 0
    until: tuple[float, ...] = ()
    """Times until which delayed jobs wait, by the medium's clock: a sample that includes the latest."""


class WaitingSurvey:
    """Reads the pending jobs of a run, a page with each call, and starts again after the last page.

    `found` describes the last complete reading, or before there is one, the pages already read.
    """

    def __init__(self, queue: Queue, run: str) -> None:
        self._queue = queue
        self._pending = Selection(run=run, states=frozenset({State.PENDING}))
        self._whole: Waiting | None = None
        self._begin()

    def _begin(self) -> None:
        self._after = ""
        self._read = self._delayed = self._failures = 0
        self._hosts: Counter[str] = Counter()
        self._until: list[float] = []

    @property
    def found(self) -> Waiting:
        """The summary of the pending jobs."""
        return self._whole or self._so_far()

    @property
    def through(self) -> bool:
        """Whether all pending jobs have been read once."""
        return self._whole is not None

    async def read(self, now: float) -> bool:
        """Read the next page. Return whether it was the last; `now` is by the medium's clock."""
        page = await self._queue.jobs(self._pending, after=self._after, limit=PAGE)
        for job in page:
            self._read += 1
            self._failures += job.attempts
            if job.host in self._hosts or len(self._hosts) < _HOSTS:
                self._hosts[job.host] += 1
            if job.not_before is not None and job.not_before > now:
                self._delayed += 1
                self._keep(job.not_before)
        if len(page) < PAGE:
            self._whole = self._so_far()
            self._begin()
            return True
        self._after = page[-1].id
        return False

    def _keep(self, until: float) -> None:
        if len(self._until) < _WAITS:
            self._until.append(until)
        elif until > max(self._until):
            self._until[-1] = until

    def _so_far(self) -> Waiting:
        named = [(host, jobs) for host, jobs in self._hosts.most_common(20) if host]
        return Waiting(
            read=self._read,
            failures=self._failures,
            hosts=tuple(named),
            delayed=self._delayed,
            until=tuple(self._until),
        )
