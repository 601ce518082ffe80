"""The only way in which a worker settles: first the records of completed attempts, then their outcomes.

Invariant: no attempt is settled as completed before its records are durable. A completed job is never run again, so its
records would be lost. `settle` raises when the records cannot be kept. `settle_last`, after which the process ends,
gives those jobs back, so that they run again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import structlog

from longshore.errors import QueueError
from longshore.outcome import Completed, Released, Settlement
from longshore.queue import Queue
from longshore.worker.kit.attempt_records import AttemptName, AttemptRecords
from longshore.wrappers.worker_queue import WorkerQueue

_RECORDS_SECONDS = 4.0
"""The time limit for the records in `settle_last`. Shorter than the time after which the guardian kills the worker."""

log = structlog.get_logger()


class SettlementWriter:
    """Writes records and outcomes over one connection to the queue."""

    def __init__(self, queue: WorkerQueue, records: AttemptRecords) -> None:
        self._wrapped = queue
        self.queue: Queue = queue.queue
        """The queue that it settles on."""
        self._records = records

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Keep the records, then settle, as `Queue.settle`. Raises `QueueError` when the records cannot be kept."""
        await self._records.keep()
        return await self.queue.settle(settlements)

    def settled(self, settlements: Sequence[Settlement], accepted: Sequence[bool]) -> None:
        """Mark the records of the attempts that `settle` has settled."""
        self._records.settled(settlements, accepted)

    async def settle_last(self, settlements: Sequence[Settlement]) -> None:
        """Settle right before the process ends, from the event loop of any thread, without a second try.

        Completed attempts whose records cannot be kept are given back. Raises `QueueError` when nothing can be settled.
        """
        records = await self._kept()
        unkept = self._records.unkept if records is None else frozenset()
        written = [_given_back(each) if _name(each) in unkept else each for each in settlements]
        accepted = await self.queue.settle(written)
        await self._wrapped.limits.tell()
        if records is not None:
            records.settled(written, accepted)
            try:
                await records.close()
            except (OSError, QueueError) as error:
                log.debug("The last records could not be marked as settled; readers ask the queue", error=str(error))

    async def close(self) -> None:
        """Close the queue."""
        await self.queue.close()

    async def _kept(self) -> AttemptRecords | None:
        """Keep the records, and return them as this event loop can use them; None when they cannot be kept."""
        try:
            async with asyncio.timeout(_RECORDS_SECONDS):
                records = await self._records.in_this_loop()
                await records.keep()
        except Exception as error:  # noqa: BLE001 (logged here; the remedy is the same for every cause)
            jobs = len(self._records.unkept)
            cause = str(error) or type(error).__name__
            log.warning("The last records could not be kept; their jobs are given back", jobs=jobs, error=cause)
            return None
        return records


def _given_back(settlement: Settlement) -> Settlement:
    return Settlement(settlement.lease, Released()) if isinstance(settlement.outcome, Completed) else settlement


def _name(settlement: Settlement) -> AttemptName:
    return settlement.lease.job.id, settlement.lease.epoch
