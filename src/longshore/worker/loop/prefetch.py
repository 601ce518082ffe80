"""How many jobs to claim: those that this worker will begin within the next half second, at most a batch.

If claiming is slow, the horizon is two claims instead of half a second. A worker with slow jobs claims only what it can
begin now, and leaves the rest to others.
"""

from __future__ import annotations

from longshore.worker.config import WorkerConfig
from longshore.worker.leases.in_flight import InFlight
from longshore.worker.loop.job_spacing import JobSpacing

_AHEAD_SECONDS = 0.5


class Prefetch:
    """The size of the next claim, from how long attempts and claims take here."""

    def __init__(self, config: WorkerConfig, in_flight: InFlight, spacing: JobSpacing) -> None:
        self._config = config
        self._in_flight = in_flight
        self._spacing = spacing
        self._attempt_seconds: float | None = None
        self._claim_seconds = 0.0

    @property
    def spaced(self) -> bool:
        """Whether there are pauses between jobs: then nothing is claimed ahead."""
        return self._spacing.pauses

    def attempts_took(self, seconds: float) -> None:
        """Learn the average time of some attempts."""
        known = self._attempt_seconds
        self._attempt_seconds = seconds if known is None else known + 0.3 * (seconds - known)

    def claim_took(self, seconds: float) -> None:
        """Learn the time of one claim."""
        self._claim_seconds += 0.3 * (seconds - self._claim_seconds)

    def size(self) -> int:
        """Return how many jobs to claim now, 0 or less for none. Sets how few ready jobs make a claim due."""
        leases, config, concurrency = self._in_flight.leases, self._config, self._spacing.concurrency
        ahead = self._ahead()
        leases.low = ahead // 2
        # With pauses between jobs, one executor at a time asks for a job; the others wait for their turn.
        free = (leases.waiting if self._spacing.pauses else concurrency - leases.under_way) - len(leases.ready)
        if free <= 0 and (len(leases.ready) > leases.low or ahead == 0):
            return 0
        # Ready jobs may have gone to another worker by now; more of them would have to wait as well.
        if leases.ready and leases.unsure:
            return 0
        # Outcomes that cannot be written pile up in memory: claim nothing until they are.
        if self._in_flight.pending.count > 2 * (config.batch_size + concurrency):
            return 0
        return min(config.batch_size, free + ahead)

    def _ahead(self) -> int:
        seconds = self._attempt_seconds
        if seconds is None or self._spacing.pauses:
            return 0
        horizon = max(_AHEAD_SECONDS, 2 * self._claim_seconds)
        return min(self._config.batch_size, int(self._spacing.concurrency * horizon / max(seconds, 1e-6)))
