"""The events of a worker: each part reports here, and one class decides what follows (`event_responder`)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from longshore.errors import QueueError
from longshore.lease import Lease
from longshore.outcome import Settlement


class WorkerEvents(Protocol):
    """Everything that one part of a worker reports and another acts on. Called in the worker's event loop."""

    def stop(self, reason: str) -> None:
        """A stop condition holds."""

    def unavailable(self, doing: str, error: QueueError, wait: float) -> None:
        """The queue is out of reach while `doing` something; it is tried again after `wait` seconds."""

    def available(self) -> None:
        """The queue answered."""

    def fatal(self, error: QueueError) -> None:
        """The queue cannot be used at all."""

    def unwanted(self, leases: Sequence[Lease]) -> None:
        """These leases were claimed and will not be begun here."""

    def lost(self, leases: Sequence[Lease]) -> None:
        """These leases are no longer valid; the outcomes of their attempts would be refused."""

    def settled(self, settlements: list[Settlement], accepted: list[bool]) -> None:
        """These settlements were written, or refused because their lease is gone."""

    def rested(self) -> None:
        """No outcome waits to be written."""

    def paused(self, reason: str) -> None:
        """The start gate has closed, for this reason."""

    def resumed(self) -> None:
        """The start gate is open again."""
