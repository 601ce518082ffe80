"""Queues with one fault each, of the kind a medium may really have. The suite must not let any of them pass."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from longshore.clock import Clock
from longshore.extensions.presence import PresentWorker
from longshore.extensions.transfer import Carried
from longshore.job import Job, NewJob, State
from longshore.lease import Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Outcome, Released, Settlement
from longshore.queue import Count, Reaped, Selection, Submitted

replace = msgspec.structs.replace


class IgnoresTheEpoch(MemoryQueue):
    """Any holder of any claim of a job may settle it."""

    def _settle(self, settlement: Settlement, outcome: Outcome) -> bool:
        there = self._jobs.get(settlement.lease.job.id)
        if there is not None:
            fresh = replace(settlement.lease, job=replace(settlement.lease.job, epoch=there.epoch))
            settlement = replace(settlement, lease=fresh)
        return super()._settle(settlement, outcome)


class IgnoresTheHolder(MemoryQueue):
    """The right epoch is enough, whoever brings it."""

    def _settle(self, settlement: Settlement, outcome: Outcome) -> bool:
        holder = self._holders.get(settlement.lease.job.id)
        if holder is not None:
            settlement = replace(settlement, lease=replace(settlement.lease, worker=holder))
        return super()._settle(settlement, outcome)


class AddsFollowOnsFirst(MemoryQueue):
    """Follow-on jobs appear even if their settlement is refused."""

    def _settle(self, settlement: Settlement, outcome: Outcome) -> bool:
        if isinstance(outcome, Completed):
            for job in outcome.jobs:
                self._add(replace(job, run=settlement.lease.job.run))
        return super()._settle(settlement, outcome)


class ResetsTheEpoch(MemoryQueue):
    """A retried job starts over, and meets its old leases."""

    async def retry(self, selection: Selection) -> int:
        chosen = [job.id for job in self._select(selection) if job.state in {State.FAILED, State.CANCELLED}]
        number = await super().retry(selection)
        for job_id in chosen:
            self._put(self._jobs[job_id], epoch=0)
        return number


class CountsReleases(MemoryQueue):
    """A job that was given back untouched has an attempt less."""

    def _settle(self, settlement: Settlement, outcome: Outcome) -> bool:
        accepted = super()._settle(settlement, outcome)
        if accepted and isinstance(outcome, Released):
            there = self._jobs[settlement.lease.job.id]
            self._put(there, attempts=there.attempts + 1)
        return accepted


class IgnoresPartitions(MemoryQueue):
    """A worker gets jobs of any partition."""

    async def claim(self, want: Want) -> list[Lease]:
        return await super().claim(replace(want, partitions=None))


class ForgivesExpiry(MemoryQueue):
    """A job that kills its worker each time comes back for ever."""

    async def reap(self) -> Reaped:
        before = {job_id: self._jobs[job_id].attempts for job_id in self._holders}
        reaped = await super().reap()
        for job_id in before.keys() - self._holders.keys():
            self._put(self._jobs[job_id], attempts=before[job_id])
        return reaped


class DisownsFollowOns(MemoryQueue):
    """Where a follow-on job came from is known only where it came from outside: nowhere."""

    def _add(self, job: NewJob, *, parent: Job | None = None) -> bool:
        del parent
        return super()._add(job)


class TakesOverFromTheStart(MemoryQueue):
    """A job that comes from another queue starts over, and meets the leases it had there."""

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        return await super().take_over([replace(item, job=replace(item.job, epoch=0)) for item in carried])


class TakesOverWhatIsThere(MemoryQueue):
    """A job that is known here is replaced by the one that comes."""

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        for item in carried:
            known = self._ids.get((item.job.run, item.job.kind, item.job.key))
            if known is not None and item.job.state is not State.CLAIMED:
                self._put(replace(item.job, id=known))
        return await super().take_over(carried)


class KeepsTheDeadOnTheRoll(MemoryQueue):
    """Who signed in once is alive until somebody reaps."""

    async def present_workers(self) -> list[PresentWorker]:
        return [PresentWorker(worker, self._info[worker]) for worker in sorted(self._info, key=lambda w: w.label)]


class SigningOutGivesUp(MemoryQueue):
    """Who leaves the roll loses what it holds."""

    async def deregister(self, worker: WorkerId) -> None:
        await super().deregister(worker)
        self._holders = {job_id: holder for job_id, holder in self._holders.items() if holder != worker}


class CountsWhenListed(MemoryQueue):
    """The counts are those of the last listing: true for anyone who lists first."""

    def __init__(self, clock: Clock | None = None) -> None:
        super().__init__(clock)
        self._counted: list[Count] = []

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        self._counted = await super().stats()
        return await super().jobs(selection, after=after, limit=limit)

    async def stats(self, run: str | None = None) -> list[Count]:
        return [count for count in self._counted if run is None or count.run == run]


class KnowsWhatItSubmitted(MemoryQueue):
    """An opening of a queue that knows the keys it submitted itself, and runs those of another opening again."""

    def __init__(self, shared: MemoryQueue) -> None:
        self.__dict__ = shared.__dict__ | {"_submitted": set()}
        self._submitted: set[tuple[str, str, str]]

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        for job in jobs:
            name = (job.run, job.kind, job.key)
            known = self._ids.get(name)
            if known is not None and name not in self._submitted and self._jobs[known].state is State.COMPLETED:
                del self._ids[name]
            self._submitted.add(name)
        return await super().submit(jobs)
