"""Outcomes on their way to the queue: known here, not yet written, or not known to be written."""

from __future__ import annotations

import asyncio

from longshore.outcome import Settlement
from longshore.worker.leases.held_leases import HeldLeases


class PendingSettlements:
    """The settlements between an executor and the queue. Only the event loop changes them; any thread may read."""

    def __init__(self, leases: HeldLeases, batch_size: int) -> None:
        self._leases = leases
        self._batch_size = batch_size
        self._waiting: list[Settlement] = []
        self._writing: list[Settlement] = []
        self.some = asyncio.Event()
        """Set when there is something to write."""
        self.enough = asyncio.Event()
        """Set when waiting longer would not make the batch larger, or not in time."""

    @property
    def outstanding(self) -> list[Settlement]:
        """All of them. From any thread."""
        return [*self._writing, *self._waiting]

    @property
    def count(self) -> int:
        return len(self._writing) + len(self._waiting)

    @property
    def waiting(self) -> bool:
        """Whether any is in no batch yet."""
        return bool(self._waiting)

    def put(self, settlement: Settlement) -> None:
        """Take over an outcome: its lease is no longer held but pending."""
        waiting, leases = self._waiting, self._leases
        # In this order: the renewal thread may look in between, and must find the lease in one place at least.
        waiting.append(settlement)
        leases.held.pop(settlement.lease.job.id, None)
        if len(waiting) == 1:
            self.some.set()
        # Without another attempt under way, no other outcome would join the batch.
        if len(waiting) >= self._batch_size or not leases.held:
            self.enough.set()

    def begin_batch(self) -> list[Settlement]:
        """Return everything that waits, as the batch that is being written from now on."""
        self.some.clear()
        self.enough.clear()
        self._writing, self._waiting = self._waiting, []
        return self._writing

    def end_batch(self) -> None:
        """Forget the batch: it was written, refused or given up."""
        self._writing = []
