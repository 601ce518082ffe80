"""All jobs that a worker answers for: those whose lease it holds, and those whose outcome is not yet written."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta

from longshore.clock import Clock
from longshore.lease import Lease
from longshore.outcome import Released, Settlement
from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.leases.pending_settlements import PendingSettlements


class InFlight:
    """The held leases and the pending settlements of one worker."""

    def __init__(self, clock: Clock, lease: timedelta, batch_size: int) -> None:
        self.leases = HeldLeases(clock, lease)
        self.pending = PendingSettlements(self.leases, batch_size)

    @property
    def count(self) -> int:
        """The number of jobs: ready, under way, or not yet settled."""
        return len(self.leases.held) + self.pending.count

    @property
    def partitions(self) -> frozenset[str]:
        """The partitions of these jobs."""
        pending = [settlement.lease for settlement in self.pending.outstanding]
        return frozenset(lease.job.partition for lease in [*self.leases.held.values(), *pending])

    def give_back(self, leases: Iterable[Lease]) -> None:
        """Release leases whose attempt was not begun."""
        for lease in leases:
            self.pending.put(Settlement(lease, Released()))
