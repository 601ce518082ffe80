"""The settler: writes outcomes in batches, by size or after a few milliseconds, while the runners go on.

Nothing is lost on the way. A queue that is out of reach is tried again, for as long as the leases can last once the
worker is stopping. An outcome that the medium cannot store (and nothing but that) becomes a failure that says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from longshore.clock import Clock
from longshore.errors import QueueError, QueueUnavailableError
from longshore.outcome import Settlement
from longshore.settlement.repair import reconsidered, unstorable
from longshore.system.backoff import Backoff
from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.settlement_writer import SettlementWriter

# Long enough to gather a batch from quick jobs, too short for a person to notice.
_GATHER_SECONDS = 0.005
_TRIES_WHEN_REFUSED = 3


class SettleEvents(Protocol):
    """Who wants to know how the writing goes."""

    def settled(self, settlements: list[Settlement], accepted: list[bool]) -> None:
        """These were written, or refused because their lease is gone."""

    def rested(self) -> None:
        """Nothing is left to write."""

    def unavailable(self, doing: str, error: QueueError, wait: float) -> None:
        """The queue is out of reach; it is tried again after `wait` seconds."""

    def fatal(self, error: QueueError) -> None:
        """The queue cannot be written to at all."""


class Settler:
    """The one who writes."""

    def __init__(
        self,
        writer: SettlementWriter,
        hand: HeldLeases,
        clock: Clock,
        size: int,
        listener: SettleEvents,
        patience: Callable[[], float | None],
    ) -> None:
        """`patience` says for how many seconds a queue may be out of reach; None for any."""
        self._writer = writer
        self._hand = hand
        self._clock = clock
        self._size = size
        self._listener = listener
        self._patience = patience
        self._waiting: list[Settlement] = []
        self._writing: list[Settlement] = []
        self._some = asyncio.Event()
        self._enough = asyncio.Event()
        self._closing = False
        self.unwritten = 0
        """Outcomes that had to be given up; their jobs come back when the lease expires."""

    @property
    def outstanding(self) -> list[Settlement]:
        """What is not written yet, or not known to be. From any thread."""
        return [*self._writing, *self._waiting]

    @property
    def busy(self) -> int:
        """How many are not written yet."""
        return len(self._writing) + len(self._waiting)

    def put(self, settlement: Settlement) -> None:
        """Take an outcome. From here on the lease is the settler's affair."""
        waiting, hand = self._waiting, self._hand
        # In this order: the renewal thread may look in between, and must find the lease in one place at least.
        waiting.append(settlement)
        hand.held.pop(settlement.lease.job.id, None)
        if len(waiting) == 1:
            self._some.set()
        # Nothing under way means that nothing would join the batch.
        if len(waiting) >= self._size or not hand.held:
            self._enough.set()

    async def run(self) -> None:
        """Write until `close`."""
        loop = asyncio.get_running_loop()
        while not (self._closing and not self._waiting):
            await self._some.wait()
            if not self._closing and not self._enough.is_set():
                timer = loop.call_later(_GATHER_SECONDS, self._enough.set)
                await self._enough.wait()
                timer.cancel()
            self._some.clear()
            self._enough.clear()
            self._writing, self._waiting = self._waiting, []
            if self._writing:
                await self._write(self._writing)
                self._writing = []
                if not self._waiting:
                    self._listener.rested()

    def close(self) -> None:
        """Let `run` end when everything is written."""
        self._closing = True
        self._some.set()
        self._enough.set()

    async def _write(self, batch: list[Settlement]) -> None:
        backoff = Backoff(0.5, 30.0)
        tries = 0
        began = self._clock.monotonic()
        while True:
            tries += 1
            try:
                accepted = await self._writer.settle(batch)
                break
            except QueueUnavailableError as error:
                wait, patience = backoff.next(), self._patience()
                if patience is not None:
                    left = began + patience - self._clock.monotonic()
                    if left <= 0:
                        self.unwritten += len(batch)
                        self._listener.fatal(error)
                        return
                    wait = min(wait, left)
                self._listener.unavailable("writing outcomes", error, wait)
            except QueueError as error:
                self._listener.fatal(error)
                if tries == _TRIES_WHEN_REFUSED:
                    self.unwritten += len(batch)
                    return
                wait = backoff.next()
            except Exception as error:  # noqa: BLE001  recorded as the failure of the very job it belongs to
                await self._write_singly(batch, error)
                return
            await self._clock.sleep(wait)
        if tries > 1:
            accepted = await reconsidered(self._writer.queue, batch, accepted)
        self._writer.settled(batch, accepted)
        self._listener.settled(batch, accepted)

    async def _write_singly(self, batch: list[Settlement], error: Exception) -> None:
        """One outcome of the batch cannot be stored. Find it, and keep it from spoiling the others."""
        if len(batch) > 1:
            for settlement in batch:
                await self._write([settlement])
            return
        (settlement,) = batch
        await self._write([unstorable(settlement, error)])
