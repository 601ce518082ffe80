"""Queues with one fault each, of the kind a medium may really have. The suite must not let any of them pass."""

from __future__ import annotations

import msgspec

from longshore.job import State
from longshore.lease import Lease, Want
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Outcome, Released, Settlement
from longshore.queue import Reaped, Selection

replace = msgspec.structs.replace


class IgnoresTheEpoch(MemoryQueue):
    """Any holder of any claim of a job may settle it."""

    def _settle(self, settlement: Settlement, outcome: Outcome) -> bool:
        there = self._jobs.get(settlement.lease.job.id)
        if there is not None:
            fresh = replace(settlement.lease, job=replace(settlement.lease.job, epoch=there.epoch))
            settlement = replace(settlement, lease=fresh)
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
