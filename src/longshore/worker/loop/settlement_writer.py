"""The only way in which a worker settles: first the records of completed attempts, then their outcomes.

Invariant: no attempt is settled as completed before its records are durable. A completed job is never run again, so its
records would be lost. `settle` raises when the records cannot be kept. `settle_last`, after which the process ends,
gives those jobs back, so that they run again.

A job is blamed only for a value of its own: an outcome that the queue refuses, or records that the sink refuses for
this very attempt. Any other error is trouble of the worker, and costs no attempt of any job.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from typing import NamedTuple

import structlog

from longshore.errors import Failure, QueueError, QueueFullError
from longshore.extensions.record_store import AttemptName, RefusedRecordsError
from longshore.outcome import Completed, Failed, Released, Settlement
from longshore.scrape.records import RecordError
from longshore.settlement.repair import REFUSALS, unstorable
from longshore.settlement.weight import batches, weight
from longshore.worker.kit.attempt_records import AttemptRecords
from longshore.wrappers.worker_queue import WorkerQueue

_RECORDS_SECONDS = 4.0
"""The time limit for the records in `settle_last`. Shorter than the time after which the guardian kills the worker."""

log = structlog.get_logger()


class RecordsFaultError(Exception):
    """The records could not be written, for a reason that is neither the sink's nor that of any attempt."""


class Written(NamedTuple):
    """The settlements that were sent to the queue, and for each whether it was accepted."""

    settlements: list[Settlement]
    accepted: list[bool]


class SettlementWriter:
    """Writes records and outcomes over one connection to the queue."""

    def __init__(self, queue: WorkerQueue, records: AttemptRecords) -> None:
        self.queue = queue
        """The queue that it settles on."""
        self._records = records

    async def settle(self, settlements: Sequence[Settlement]) -> Written:
        """Keep the records, then settle, as `Queue.settle`. Completed attempts whose records are refused have failed.

        Raises `QueueError` when the records cannot be kept, and `RecordsFaultError` for trouble of this process.
        """
        try:
            await self._records.keep()
        except QueueError:
            raise
        except OSError as error:
            if error.errno in {errno.ENOSPC, errno.EDQUOT}:
                raise QueueFullError(f"The disk under the records is full ({error}). Free some space.") from error
            raise RecordsFaultError(f"{type(error).__name__}: {error}") from error
        except Exception as error:
            raise RecordsFaultError(f"{type(error).__name__}: {error}") from error
        written = [self._judged(each) for each in settlements]
        return Written(written, await self.queue.settle(written))

    async def settle_without_records(self, settlements: Sequence[Settlement]) -> Written:
        """Settle as `Queue.settle`, and give back completed attempts whose records are not kept."""
        unkept = self._records.unkept
        written = [_given_back(each) if _name(each) in unkept else self._judged(each) for each in settlements]
        return Written(written, await self.queue.settle(written))

    def settled(self, settlements: Sequence[Settlement], accepted: Sequence[bool]) -> None:
        """Mark the records of the attempts that `settle` has settled."""
        self._records.settled(settlements, accepted)

    async def settle_last(self, settlements: Sequence[Settlement]) -> None:
        """Settle right before the process ends, from the event loop of any thread, without a second try.

        Completed attempts whose records cannot be kept are given back. Raises `QueueError` when nothing can be settled.
        """
        records = await self._kept()
        if records is not None and records is not self._records:
            self._records.refused.update(records.refused)
        unkept = self._records.unkept if records is None else frozenset()
        written = [_given_back(each) if _name(each) in unkept else self._judged(each) for each in settlements]
        # The time is short, so the lightest come first.
        written.sort(key=weight)
        accepted = [ok for part in batches(written) for ok in await self._settle_each(part)]
        await self.queue.tell()
        if records is not None:
            records.settled(written, accepted)
            try:
                await records.close()
            except (OSError, QueueError, RefusedRecordsError) as error:
                log.debug("The last records could not be marked as settled; readers ask the queue", error=str(error))

    async def close(self) -> None:
        """Close the queue."""
        await self.queue.close()

    async def _settle_each(self, settlements: list[Settlement]) -> list[bool]:
        """Settle all; if the queue refuses a value, one by one, so that only the job with that value fails."""
        try:
            return await self.queue.settle(settlements)
        except REFUSALS as error:
            if len(settlements) == 1:
                return await self.queue.settle([unstorable(settlements[0], error)])
        return [ok for each in settlements for ok in await self._settle_each([each])]

    def _judged(self, settlement: Settlement) -> Settlement:
        """Return the settlement; as failed if its attempt has completed and its records can never be stored."""
        refused = self._records.refused
        if not refused or not isinstance(settlement.outcome, Completed) or _name(settlement) not in refused:
            return settlement
        cause = refused[_name(settlement)]
        error = RecordError(f"The records of this attempt cannot be stored: {cause}")
        failed = Settlement(settlement.lease, Failed(Failure.of(error)), settlement.seconds)
        return failed.made_by(settlement.handler_version)

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
