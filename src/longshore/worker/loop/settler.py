"""The settler: writes outcomes in batches, by size or after a few milliseconds, while the executors go on.

No outcome is lost on the way. If the queue has trouble that may pass by itself, the settler tries again, for as long as
`Shutdown.patience` says. Batches are limited by weight, and a batch that takes too long is divided. An outcome (and
only that one) that the medium cannot store, or that is so heavy that it takes too long even alone, becomes a failure
that says so. Trouble of this process is no failure of a job: after a few tries the jobs are given back, and the worker
stops.
"""

from __future__ import annotations

import asyncio

from longshore.clock import Clock
from longshore.errors import PassingQueueError, QueueError, QueueTimeoutError
from longshore.outcome import Settlement
from longshore.settlement.repair import REFUSALS, reconsidered, too_heavy, unstorable
from longshore.settlement.weight import HEAVIEST, batches, described, halves, weight
from longshore.system.backoff import Backoff
from longshore.worker.leases.pending_settlements import PendingSettlements
from longshore.worker.loop.event_responder import EventResponder
from longshore.worker.loop.outage import Outage
from longshore.worker.loop.settlement_writer import RecordsFaultError, SettlementWriter

# Long enough to gather a batch from quick jobs, too short for a person to notice.
_GATHER_SECONDS = 0.005
_DOING = "writing outcomes"
_TRIES = 3
"""How often a batch is tried, if neither its values nor an outage of the queue are the trouble."""


class Settler:
    """The loop that writes the pending settlements of one worker."""

    def __init__(
        self,
        writer: SettlementWriter,
        pending: PendingSettlements,
        clock: Clock,
        events: EventResponder,
        outage: Outage,
    ) -> None:
        self._writer = writer
        self._pending = pending
        self._clock = clock
        self._events = events
        self._outage = outage
        self._closing = False
        self.unwritten = 0
        """Outcomes that had to be given up; their jobs come back when the lease expires."""

    async def run(self) -> None:
        """Write until `close`."""
        loop, pending = asyncio.get_running_loop(), self._pending
        some, enough = pending.some, pending.enough
        while not (self._closing and not pending.waiting):
            await some.wait()
            if not self._closing and not enough.is_set():
                timer = loop.call_later(_GATHER_SECONDS, enough.set)
                await enough.wait()
                timer.cancel()
            if batch := pending.begin_batch():
                for part in batches(batch):
                    await self._write(part)
                pending.end_batch()
                if not pending.waiting:
                    self._events.rested()

    def close(self) -> None:
        """Let `run` end when everything is written."""
        self._closing = True
        self._pending.some.set()
        self._pending.enough.set()

    async def _write(self, batch: list[Settlement], *, again: bool = False) -> None:
        """Write a batch. `again` says that it may have been written before, without an answer."""
        backoff = Backoff(0.5, 30.0)
        tries = timeouts = 0
        while True:
            tries += 1
            try:
                batch, accepted = await self._writer.settle(batch)
                break
            except PassingQueueError as error:
                left = self._outage.left(_DOING, error)
                if left <= 0:
                    self.unwritten += len(batch)
                    self._events.fatal(error)
                    return
                timeouts = timeouts + 1 if isinstance(error, QueueTimeoutError) else 0
                if timeouts and len(batch) > 1:
                    for part in halves(batch):
                        await self._write(part, again=True)
                    return
                heavy = timeouts > 0 and weight(batch[0]) > HEAVIEST
                if heavy and timeouts == _TRIES:
                    batch = [too_heavy(batch[0], error)]
                    continue
                wait = min(backoff.next(), left)
                self._events.unavailable(_DOING, _with_job(error, batch[0]) if heavy else error, wait)
            except QueueError as error:
                self._events.fatal(error)
                if tries == _TRIES:
                    self.unwritten += len(batch)
                    return
                wait = backoff.next()
            except REFUSALS as error:
                await self._write_singly(batch, error)
                return
            except Exception as error:  # noqa: BLE001  reported; the jobs are not to blame, and lose no attempt
                if tries == _TRIES:
                    await self._give_back(batch, error)
                    return
                wait = backoff.next()
                self._events.unavailable(_DOING, _fault(error), wait)
            await self._clock.sleep(wait)
        self._outage.over(_DOING)
        if tries > 1 or again:
            accepted = await reconsidered(self._writer.queue, batch, accepted)
        self._writer.settled(batch, accepted)
        self._events.settled(batch, accepted)

    async def _give_back(self, batch: list[Settlement], error: Exception) -> None:
        """Write what can be written without records, give the other jobs back, and stop the worker."""
        self._events.fatal(_fault(error))
        try:
            batch, accepted = await self._writer.settle_without_records(batch)
        except Exception as again:  # noqa: BLE001  reported; the jobs come back when the lease expires
            self._events.fatal(_fault(again))
            self.unwritten += len(batch)
            return
        self._writer.settled(batch, accepted)
        self._events.settled(batch, accepted)

    async def _write_singly(self, batch: list[Settlement], error: Exception) -> None:
        """Find the outcome of the batch that cannot be stored, and write the others."""
        if len(batch) > 1:
            for settlement in batch:
                await self._write([settlement])
            return
        (settlement,) = batch
        await self._write([unstorable(settlement, error)])


def _with_job(error: PassingQueueError, settlement: Settlement) -> QueueError:
    job = settlement.lease.job
    return QueueError(f"{error}. The outcome of job {job.id} ({job.kind}) has {described(settlement)}")


def _fault(error: Exception) -> QueueError:
    if isinstance(error, QueueError):
        return error
    cause = str(error) if isinstance(error, RecordsFaultError) else f"{type(error).__name__}: {error}"
    return QueueError(f"This worker cannot write outcomes: {cause}")
