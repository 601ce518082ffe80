"""The stop check: builds the snapshot that stop conditions look at, asks them, and reports the first that holds."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta

import msgspec

from longshore.queue import Count
from longshore.worker.context import WorkerContext
from longshore.worker.lifecycle.shutdown import Shutdown
from longshore.worker.loop.idleness import Idleness
from longshore.worker.loop.job_source import JobSource
from longshore.worker.loop.stop_conditions import (
    MaxEmptyPolls,
    MaxIdle,
    MaxWork,
    RunFinished,
    Snapshot,
    StopCondition,
    out_of_reach,
)
from longshore.worker.status.blockage import Blockage

CHECK_SECONDS = 0.25
"""How often the stop conditions are asked while there is work."""


class StopCheck:
    """Decides whether a stop condition of one worker holds."""

    def __init__(
        self,
        context: WorkerContext,
        conditions: Sequence[StopCondition],
        kinds: frozenset[str],
        source: JobSource,
        idleness: Idleness,
        shutdown: Shutdown,
        blockage: Blockage,
    ) -> None:
        """`kinds` are those that the worker has handlers for."""
        self._config = config = context.config
        self._clock = context.clock
        self._queue = context.queue
        self._counters = context.counters
        self._in_flight = context.in_flight
        self._conditions = conditions
        self._kinds = kinds
        self._source = source
        self._shutdown = shutdown
        self._blockage = blockage
        self.idleness = idleness
        self._started = self._other_kinds_since = self._clock.monotonic()
        self._other_kinds = 0
        self._checked_at = float("-inf")
        self._quotas = [condition for condition in conditions if isinstance(condition, MaxWork)]
        self._longest_idle = [condition.limit for condition in conditions if isinstance(condition, MaxIdle)]
        watched = [condition for condition in conditions if isinstance(condition, RunFinished)]
        self.watches_run = bool(watched)
        """Whether a condition asks for the jobs that remain."""
        self._run = config.run or (watched[0].run if watched else None)
        self.target = min((quota.limit for quota in self._quotas), default=None)
        """The number of finished jobs after which the worker stops; None without a limit."""

    def quota(self) -> int | None:
        """Return how many more jobs may be claimed; None without a limit."""
        if not self._quotas:
            return None
        snapshot = self._snapshot()
        return min(quota.left(snapshot) for quota in self._quotas)

    def holds_now(self) -> bool:
        """Return whether a condition holds. Asks them at most every `CHECK_SECONDS`, and at once at the target."""
        now = self._clock.monotonic()
        if now - self._checked_at < CHECK_SECONDS and self._counters.finished != self.target:
            return False
        self._checked_at = now
        return self.holds(self._snapshot())

    def holds(self, snapshot: Snapshot) -> bool:
        """Return whether a condition holds for `snapshot`, and report the first that does."""
        for condition in self._conditions:
            reason = condition.check(snapshot)
            if reason is None:
                continue
            if isinstance(condition, MaxEmptyPolls | MaxIdle) and self._blockage.queue_error:
                self._shutdown.fail(out_of_reach(reason, self._blockage.queue_error))
            else:
                self._shutdown.stop(reason)
            return True
        return False

    async def holds_while_waiting(self) -> bool:
        """Return whether a condition holds while the worker waits. Empty polls were judged when they were counted."""
        snapshot = await self.full_snapshot()
        return snapshot is not None and self.holds(msgspec.structs.replace(snapshot, empty_polls=0))

    def idle_left(self, snapshot: Snapshot) -> float | None:
        """Return the seconds until a limit on idle time is reached; None without such a limit."""
        return min(((limit - snapshot.idle).total_seconds() for limit in self._longest_idle), default=None)

    async def full_snapshot(self) -> Snapshot | None:
        """Return a snapshot with the remaining jobs if a condition needs them; None if the queue is out of reach."""
        snapshot = self._snapshot()
        if not self.watches_run:
            return snapshot
        counts = await self._source.counts(self._run)
        if counts is None:
            return None
        remaining, foreign = self._sorted_by_reach(counts)
        submitting = False
        if not remaining:
            submitting = await self._source.being_submitted(self._run)
            # Again: the last jobs of a submission may have come between the counts and the end of its notice.
            if (counts := await self._source.counts(self._run)) is None:
                return None
            remaining, foreign = self._sorted_by_reach(counts)
        return msgspec.structs.replace(
            snapshot, remaining=remaining, left_to_others=foreign, being_submitted=submitting
        )

    def _snapshot(self) -> Snapshot:
        counters, in_flight = self._counters, self._in_flight.count
        return Snapshot(
            claimed=counters.claimed,
            completed=counters.completed,
            failed=counters.failed + counters.retried,
            retried=counters.retried,
            in_hand=in_flight,
            errors_in_a_row=counters.errors_in_a_row,
            empty_polls=self.idleness.empty_polls,
            idle=timedelta(seconds=0.0 if in_flight else self.idleness.seconds),
            uptime=timedelta(seconds=self._clock.monotonic() - self._started),
        )

    def _sorted_by_reach(self, counts: Sequence[Count]) -> tuple[int, int]:
        """Return how many jobs may still come to this worker, and how many are pending for others."""
        partitions = self._config.partitions
        remaining = foreign = other_kinds = 0
        # A worker of published code that works on one run is replaced by one with the other version.
        replaced = {self._run} if self._config.published else set()
        pinned_elsewhere = self._queue.pinned_elsewhere - replaced
        for count in counts:
            if count.run in pinned_elsewhere:
                foreign += count.pending
            elif partitions is not None and count.partition not in partitions:
                remaining += count.claimed
                foreign += count.pending
            elif count.kind not in self._kinds:
                remaining += count.claimed
                other_kinds += count.pending
            else:
                remaining += count.remaining
        # Jobs of other kinds may bring follow-on jobs for this worker if another worker runs them. If their number has
        # not changed for a lease length, no such worker is there.
        now = self._clock.monotonic()
        if remaining or other_kinds != self._other_kinds:
            self._other_kinds, self._other_kinds_since = other_kinds, now
        if now - self._other_kinds_since < self._config.lease.total_seconds():
            remaining += other_kinds
        return remaining, foreign + other_kinds
