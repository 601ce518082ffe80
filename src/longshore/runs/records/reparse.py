"""Reparse a run: run its handlers again on the stored pages, without a single request.

A failed job is first tried without touching the queue. If it now succeeds, it is made pending, claimed and settled like
any other job, so everything is fenced and counted; otherwise it stays as it is. A completed job stays completed with
the result it has: the records it emits now replace its earlier ones, as a revision of the same attempt.

Follow-on jobs obey the limits of the run. A pause is ignored: nothing is fetched, and a person asked for the reparse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import structlog

from longshore.clock import SystemClock
from longshore.errors import Failure, InputFileError
from longshore.extensions.record_store import AttemptName, RefusedRecordsError
from longshore.extensions.transfer import Carried
from longshore.handlers.handler import Handler
from longshore.handlers.offline_run import OfflineAttempt, run_offline
from longshore.job import Job, JobName, NewJob, State
from longshore.lease import DEFAULT_LEASE, Lease, Want, WorkerId
from longshore.outcome import Completed, Failed, Released, Settlement
from longshore.queue import Queue, Selection, each_job, totals
from longshore.runs.records.kept_pages import KeptPages
from longshore.runs.transfer.copy_jobs import taking_over
from longshore.runs.watch.failures import short_message
from longshore.scrape.records import Emitted, RecordError, RecordSink
from longshore.wrappers.admission import Admission
from longshore.wrappers.worker_queue import WorkerQueue

if TYPE_CHECKING:
    from longshore.scrape.browser.offline import OfflineBrowsers

log = structlog.get_logger()

_CHUNK = 100
_MAX_OTHERS = 20_000
"""Largest number of other pending jobs that are claimed and released to reach the wanted jobs behind them."""
_KNOWN_REASONS, _KEPT_REASONS = 1000, 5
"""How many different reasons are counted (messages may all differ), and how many of them are shown."""


class ReparseResult(msgspec.Struct):
    """The result of a reparse: numbers of jobs, except the last two fields."""

    repaired: int = 0
    """Failed before, completed now."""
    still_failing: int = 0
    refreshed: int = 0
    """Completed before and after; their records come from the new parse."""
    left_alone: int = 0
    """Completed before, but the new parse fails: they keep their result and records."""
    without_pages: int = 0
    not_now: int = 0
    """Their handler asked to be called again later."""
    taken: int = 0
    """Made pending, but claimed by another worker before they could be settled here."""
    follow_ons: int = 0
    """New jobs that the new parse created; they are pending."""
    records: int = 0
    reasons: dict[str, int] = {}
    """Why jobs fail, with the number of jobs; the most frequent first."""


async def reparse(
    queue: Queue,
    run: str,
    handlers: Mapping[str, Handler],
    pages: KeptPages,
    records: RecordSink,
    revised: RecordSink,
    browsers: OfflineBrowsers | None = None,
    *,
    lease: timedelta = DEFAULT_LEASE,
    version: str = "",
) -> ReparseResult:
    """Run the handlers on the stored pages of every failed and completed job of the run whose kind they handle.

    No request is made: a missing page fails the attempt, and without `browsers` so does `kit.browser`. The records of
    repaired jobs go to `records`; records that replace earlier ones go to `revised`, which must write them as a later
    revision. None of these is closed. `version` is that of the handler file.
    """
    sources = _Sources(pages, browsers)
    return await _Pass(queue, run, handlers, sources, records, revised, lease, version).make()


class _Sources(NamedTuple):
    """Where attempts get their pages from."""

    pages: KeptPages
    browsers: OfflineBrowsers | None


class _Pass:
    def __init__(
        self,
        queue: Queue,
        run: str,
        handlers: Mapping[str, Handler],
        sources: _Sources,
        records: RecordSink,
        revised: RecordSink,
        lease: timedelta,
        version: str,
    ) -> None:
        self._clock = SystemClock()
        self._queue = WorkerQueue(queue, self._clock, fingerprint=None)
        self._admission = Admission(self._queue, self._clock)
        self._run = run
        self._handlers = handlers
        self._pages, self._browsers = sources
        self._records = records
        self._revised = revised
        self._worker = WorkerId.new("reparse")
        self._lease = lease
        self._version = version
        self._done = ReparseResult()
        self._reasons: Counter[str] = Counter()

    async def make(self) -> ReparseResult:
        await self._queue.limits.learn(self._run)
        async with self._admission:
            # Completed jobs first: repaired jobs become completed too, and must not be parsed again.
            await self._refresh()
            await self._repair()
        await self._queue.tell()
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
                await self._flush_revised()
        await self._flush_revised()

    async def _flush_revised(self) -> None:
        for error in (await _refused(self._revised)).values():
            # The job keeps its earlier records.
            self._done.refreshed -= 1
            self._done.left_alone += 1
            self._reasons[str(error)] += 1

    async def _add(self, parent: Job, found: Sequence[NewJob]) -> int:
        """Add follow-on jobs of a job that stays completed. Return how many are new in the run."""
        if not found:
            return 0
        # Not `submit`, which would store them without a parent and at depth 0.
        now = self._clock.now()
        jobs = await self._admission.fitting([_follow_on(each, parent, now) for each in found])
        return (await taking_over(self._queue).take_over([Carried(job) for job in jobs])).new if jobs else 0

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
        """Yield every job in this state that has stored pages, with the attempt on them."""
        selection = Selection(run=self._run, kinds=frozenset(self._handlers), states=frozenset({state}))
        async for job in each_job(self._queue, selection):
            try:
                exchanges = await self._pages.exchanges(job)
            except InputFileError as error:
                log.warning(f"Job {job.id} counts as one without pages: {error}")
                exchanges = []
            if not exchanges:
                self._done.without_pages += 1
                continue
            handler, source = self._handlers[job.kind], f"job {job.id}"
            attempt = await run_offline(handler, job, exchanges, source, browsers=self._browsers)
            if isinstance(attempt.outcome, Failed):
                self._count_reason(job, attempt.outcome.failure)
            elif not isinstance(attempt.outcome, Completed):
                self._done.not_now += 1
            yield job, attempt

    def _count_reason(self, job: Job, failure: Failure) -> None:
        # The URL is left out, or each job would have a reason of its own.
        reason = f"{failure.exception_name or failure.error_type}: {short_message(job, failure)}"
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
            settlements.append(Settlement(lease, attempt.outcome).made_by(self._version))
        refused = await _refused(self._records)
        for number, settlement in enumerate(settlements):
            if (cause := refused.get((settlement.lease.job.id, settlement.lease.epoch))) is not None:
                failure = Failure.of(RecordError(f"The records of this attempt cannot be stored: {cause}"))
                settlements[number] = Settlement(settlement.lease, Failed(failure))
                self._reasons[failure.message] += 1
                self._done.still_failing += 1
        before = await self._size()
        accepted = await self._queue.settle([*settlements, *(Settlement(lease, Released()) for lease in others)])
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
        """Claim the wanted jobs. Return their leases, and those of other jobs that were claimed on the way."""
        want = Want(
            worker=self._worker,
            limit=2 * _CHUNK,
            lease=self._lease,
            run=self._run,
            kinds=frozenset(self._handlers),
        )
        ours: list[Lease] = []
        others: list[Lease] = []
        while len(ours) < len(wanted) and len(others) < _MAX_OTHERS:
            # Not of the queue itself, which would skip a paused run.
            leases = await self._queue.limits.claim(want)
            if not leases:
                break
            ours += [lease for lease in leases if lease.job.id in wanted]
            others += [lease for lease in leases if lease.job.id not in wanted]
        return ours, others


async def _refused(sink: RecordSink) -> Mapping[AttemptName, Exception]:
    """Flush the sink. Return the attempts whose records can never be stored there, and why."""
    try:
        await sink.flush()
    except RefusedRecordsError as error:
        return error.causes
    return {}


def _follow_on(new: NewJob, parent: Job, now: float) -> Job:
    fields = {**msgspec.structs.asdict(new), "run": parent.run}
    del fields["default_key"]
    name = JobName(parent.kind, parent.key)
    return Job(id="", parent=name, depth=parent.depth + 1, submitted_at=now, **fields)
