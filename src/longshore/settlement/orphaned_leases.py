"""Leases that a worker holds without knowing: the answer to the claim got lost. They are given back.

Every claim and renewal of the worker extends them too, so they would never expire while the worker lives.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet

import structlog

from longshore.lease import Held, Lease, WorkerId
from longshore.outcome import Released, Settlement
from longshore.queue import Queue, Selection

log = structlog.get_logger()


class OrphanedLeases:
    """Remembers what one renewal reported and the worker did not know, until the next renewal."""

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker
        self._seen: AbstractSet[Held] = frozenset()

    async def give_back(self, queue: Queue, unknown: AbstractSet[Held]) -> None:
        """Give back what two renewals in a row reported as held and the worker does not know.

        Once is not enough: a lease that was settled between the answer and the comparison is unknown as well.
        Call it only while no claim is on its way. Raises what the queue raises.
        """
        again = unknown & self._seen
        self._seen = unknown
        if not again:
            return
        epochs = {held.job_id: held.epoch for held in again}
        jobs = await queue.jobs(Selection(ids=frozenset(epochs)), limit=len(epochs))
        leases = [Lease(job, self._worker, 0.0) for job in jobs if epochs[job.id] == job.epoch]
        await queue.settle([Settlement(lease, Released()) for lease in leases])
        log.warning("Gave back jobs of a claim whose answer got lost", jobs=len(leases))
