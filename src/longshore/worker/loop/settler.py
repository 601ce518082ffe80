"""The settler: writes outcomes in batches, by size or after a few milliseconds, while the executors go on.

No outcome is lost on the way. If the queue is out of reach the settler tries again, without limit while the worker runs
and for a lease length while it drains. An outcome that the medium cannot store (and only that one) becomes a failure
that says so. Trouble of this process is no failure of a job: after a few tries the jobs are given back, and the worker
stops.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from longshore.clock import Clock
from longshore.errors import QueueError, QueueUnavailableError
from longshore.outcome import Settlement
from longshore.settlement.repair import REFUSALS, reconsidered, unstorable
from longshore.system.backoff import Backoff
from longshore.worker.leases.pending_settlements import PendingSettlements
from longshore.worker.loop.event_responder import EventResponder
from longshore.worker.loop.settlement_writer import RecordsFaultError, SettlementWriter

# Long enough to gather a batch from quick jobs, too short for a person to notice.
_GATHER_SECONDS = 0.005
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
        patience: Callable[[], float | None],
    ) -> None:
        """`patience` returns how many seconds an outage of the queue may last; None for any time."""
        self._writer = writer
        self._pending = pending
        self._clock = clock
        self._events = events
        self._patience = patience
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
                await self._write(batch)
                pending.end_batch()
                if not pending.waiting:
                    self._events.rested()

    def close(self) -> None:
        """Let `run` end when everything is written."""
        self._closing = True
        self._pending.some.set()
        self._pending.enough.set()

    async def _write(self, batch: list[Settlement]) -> None:
        backoff = Backoff(0.5, 30.0)
        tries = 0
        began = self._clock.monotonic()
        while True:
            tries += 1
            try:
                batch, accepted = await self._writer.settle(batch)
                break
            except QueueUnavailableError as error:
                wait, patience = backoff.next(), self._patience()
                if patience is not None:
                    left = began + patience - self._clock.monotonic()
                    if left <= 0:
                        self.unwritten += len(batch)
                        self._events.fatal(error)
                        return
                    wait = min(wait, left)
                self._events.unavailable("writing outcomes", error, wait)
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
                self._events.unavailable("writing outcomes", _fault(error), wait)
            await self._clock.sleep(wait)
        if tries > 1:
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


def _fault(error: Exception) -> QueueError:
    if isinstance(error, QueueError):
        return error
    cause = str(error) if isinstance(error, RecordsFaultError) else f"{type(error).__name__}: {error}"
    return QueueError(f"This worker cannot write outcomes: {cause}")
