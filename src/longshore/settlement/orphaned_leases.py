"""Orphaned leases: leases that a worker holds without knowing, because the answer to its claim was lost.

They are released. Every claim and renewal of the worker extends them too, so they would never expire while it lives.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import structlog

from longshore.lease import Held, Lease, WorkerId
from longshore.outcome import Released, Settlement
from longshore.queue import Selection
from longshore.wrappers.worker_queue import WorkerQueue

log = structlog.get_logger()


class OrphanedLeases:
    """The unknown leases that the last renewal of one worker reported, kept until the next renewal."""

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker
        self._seen: AbstractSet[Held] = frozenset()

    async def give_back(self, queue: WorkerQueue, unknown: AbstractSet[Held]) -> None:
        """Release the leases in `unknown` that the renewal before reported as well and the worker did not know.

        Once is not enough: a lease that was settled between the answer and the comparison is unknown as well.
        Call it only while no claim is in flight. Raise what the queue raises.
        """
        again = unknown & self._seen
        self._seen = unknown
        if not again:
            return
        epochs = {held.job_id: held.epoch for held in again}
        jobs = await queue.jobs(Selection(ids=frozenset(epochs)), limit=len(epochs))
        leases = [Lease(job, self._worker, 0.0) for job in jobs if epochs[job.id] == job.epoch]
        await queue.settle([Settlement(lease, Released()) for lease in leases])
        log.warning("Gave back jobs of a claim whose answer was lost", jobs=len(leases))
