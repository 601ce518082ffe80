"""Reparsing: the handlers run again on the pages that were kept, without one request.

Failed jobs are tried first without touching the queue. Those that now pass are made pending, claimed and settled like
any other, so everything is fenced and counted; the rest stay as they are. Completed jobs stay completed, with the
result they have: what they emit now takes the place of what they had emitted, as a revision of the same attempt.

Follow-on jobs keep to the limits of the run. A pause does not matter: nothing is fetched, and a person asked for it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta

import msgspec
import structlog

from longshore.clock import SystemClock
from longshore.errors import Failure, InputFileError
from longshore.extensions.transfer import Carried
from longshore.handlers.handler import Handler
from longshore.handlers.offline_run import OfflineAttempt, run_offline
from longshore.job import Job, JobName, NewJob, State
from longshore.lease import DEFAULT_LEASE, Lease, Want, WorkerId
from longshore.outcome import Completed, Failed, Released, Settlement
from longshore.queue import Queue, Selection, each_job, totals
from longshore.runs.transfer.copy_jobs import taking_over
from longshore.runs.watch.failures import complaint
from longshore.scrape.capture.page_store import PageStore
from longshore.scrape.records import Emitted, RecordSink
from longshore.wrappers.worker_queue import worker_queue

log = structlog.get_logger()

_CHUNK = 100
_MOST_IN_FRONT = 20_000
"""Pending jobs of the run that are taken and given back to get at those behind them."""
_KNOWN_REASONS, _KEPT_REASONS = 1000, 5
"""Messages may all be different: so many are counted, and so many of them shown."""


class Reparsed(msgspec.Struct):
    """What a pass did. All are numbers of jobs, but for the last two."""

    repaired: int = 0
    """Failed before, completed now."""
    still_failing: int = 0
    refreshed: int = 0
    """Completed before and after, their records those of the new parse."""
    left_alone: int = 0
    """Completed before, and failing on the new parse: they keep what they had."""
    without_pages: int = 0
    not_now: int = 0
    """Their handler asked to be called again later."""
    taken: int = 0
    """Made pending, and claimed by another worker before they could be settled here."""
    follow_ons: int = 0
    """New jobs that came of it; they wait for a worker."""
    records: int = 0
    reasons: dict[str, int] = {}
    """Why those that fail do, the most frequent first."""


async def reparse(
    queue: Queue,
    run: str,
    handlers: Mapping[str, Handler],
    pages: PageStore,
    records: RecordSink,
    revised: RecordSink,
    *,
    lease: timedelta = DEFAULT_LEASE,
) -> Reparsed:
    """Run the handlers on the kept pages of every failed and completed job of the run whose kind they handle.

    No request is made: a page that is not there fails the attempt. The records of repaired jobs go to `records`, those
    that take the place of others to `revised`, which must write them as a later revision. Neither is closed.
    """
    return await _Pass(queue, run, handlers, pages, records, revised, lease).make()


class _Pass:
    def __init__(
        self,
        queue: Queue,
        run: str,
        handlers: Mapping[str, Handler],
        pages: PageStore,
        records: RecordSink,
        revised: RecordSink,
        lease: timedelta,
    ) -> None:
        self._queue = queue
        self._clock = SystemClock()
        self._limits = worker_queue(queue, self._clock).limits
        self._run = run
        self._handlers = handlers
        self._pages = pages
        self._records = records
        self._revised = revised
        self._worker = WorkerId.new("reparse")
        self._lease = lease
        self._done = Reparsed()
        self._reasons: Counter[str] = Counter()

    async def make(self) -> Reparsed:
        await self._limits.learn(self._run)
        # First the completed ones: those that are repaired join them.
        await self._refresh()
        await self._repair()
        await self._limits.tell()
        self._done.reasons = dict(self._reasons.most_common(_KEPT_REASONS))
        return self._done

    async def _refresh(self) -> None:
        async for job, attempt in self._parsed(State.COMPLETED):
            if not isinstance(attempt.outcome, Completed):
                self._done.left_alone += isinstance(attempt.outcome, Failed)
                continue
            emitted = attempt.emitted or Emitted()
            self._revised.put(job, emitted)
            self._revised.settled(job.id, job.epoch)
            self._done.refreshed += 1
            self._done.records += len(emitted.records)
            self._done.follow_ons += await self._add(job, attempt.outcome.jobs)
            if self._done.refreshed % _CHUNK == 0:
                await self._revised.flush()
        await self._revised.flush()

    async def _add(self, parent: Job, found: Sequence[NewJob]) -> int:
        """Add follow-on jobs of a job that stays completed. Return how many the run did not have."""
        jobs = await self._limits.fitting(parent, [msgspec.structs.replace(each, run=self._run) for each in found])
        if not jobs:
            return 0
        # Not `submit`, which takes them for jobs from outside: without a parent, at depth 0.
        name, now = JobName(parent.kind, parent.key), self._clock.now()
        return (
            await taking_over(self._queue).take_over([_carried(each, name, parent.depth + 1, now) for each in jobs])
        ).new

    async def _repair(self) -> None:
        passing: dict[str, OfflineAttempt] = {}
        async for job, attempt in self._parsed(State.FAILED):
            if isinstance(attempt.outcome, Completed):
                passing[job.id] = attempt
            else:
                self._done.still_failing += isinstance(attempt.outcome, Failed)
            if len(passing) >= _CHUNK:
                await self._settle(passing)
                passing = {}
        await self._settle(passing)

    async def _parsed(self, state: State) -> AsyncIterator[tuple[Job, OfflineAttempt]]:
        """Every job in this state that has pages, and what its handler makes of them."""
        selection = Selection(run=self._run, kinds=frozenset(self._handlers), states=frozenset({state}))
        async for job in each_job(self._queue, selection):
            try:
                exchanges = self._pages.exchanges(job)
            except InputFileError as error:
                log.warning(f"Job {job.id} counts as one without pages: {error}")
                exchanges = []
            if not exchanges:
                self._done.without_pages += 1
                continue
            attempt = await run_offline(self._handlers[job.kind], job, exchanges, f"job {job.id}")
            if isinstance(attempt.outcome, Failed):
                self._note(job, attempt.outcome.failure)
            elif not isinstance(attempt.outcome, Completed):
                self._done.not_now += 1
            yield job, attempt

    def _note(self, job: Job, failure: Failure) -> None:
        # Without the URL, or there would be a reason for each.
        reason = f"{failure.exception_name or failure.error_type}: {complaint(job, failure)}"
        if reason in self._reasons or len(self._reasons) < _KNOWN_REASONS:
            self._reasons[reason] += 1

    async def _settle(self, passing: Mapping[str, OfflineAttempt]) -> None:
        if not passing:
            return
        await self._queue.retry(Selection(ids=frozenset(passing)))
        ours, others = await self._claimed(frozenset(passing))
        settlements = []
        for lease in ours:
            attempt = passing[lease.job.id]
            if attempt.emitted is not None:
                self._records.put(lease.job, attempt.emitted)
            settlements.append(Settlement(lease, attempt.outcome))
        await self._records.flush()
        before = await self._size()
        accepted = await self._limits.settle([*settlements, *(Settlement(lease, Released()) for lease in others)])
        self._done.follow_ons += await self._size() - before
        for settlement, ok in zip(settlements, accepted, strict=False):
            if ok and isinstance(settlement.outcome, Completed):
                job = settlement.lease.job
                emitted = passing[job.id].emitted
                self._records.settled(job.id, job.epoch)
                self._done.repaired += 1
                self._done.records += 0 if emitted is None else len(emitted.records)
        self._done.taken += len(passing) - sum(accepted[: len(settlements)])

    async def _size(self) -> int:
        return totals(await self._queue.stats(self._run)).total

    async def _claimed(self, wanted: frozenset[str]) -> tuple[list[Lease], list[Lease]]:
        """The leases of the jobs wanted, and those of others that lay in front of them."""
        want = Want(
            worker=self._worker,
            limit=2 * _CHUNK,
            lease=self._lease,
            run=self._run,
            kinds=frozenset(self._handlers),
        )
        ours: list[Lease] = []
        others: list[Lease] = []
        while len(ours) < len(wanted) and len(others) < _MOST_IN_FRONT:
            leases = await self._queue.claim(want)
            if not leases:
                break
            ours += [lease for lease in leases if lease.job.id in wanted]
            others += [lease for lease in leases if lease.job.id not in wanted]
        return ours, others


def _carried(new: NewJob, parent: JobName, depth: int, now: float) -> Carried:
    fields = msgspec.structs.asdict(new)
    return Carried(Job(id="", parent=parent, depth=depth, submitted_at=now, **fields))
