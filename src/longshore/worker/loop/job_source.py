"""The claimer's questions to the queue. If the queue is out of reach, each reports it and waits before it returns.

Each raises the error if it cannot pass by itself, or has lasted too long (see `Shutdown.patience`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from datetime import timedelta

import msgspec

from longshore.errors import PassingQueueError
from longshore.extensions.submissions import being_submitted
from longshore.lease import Lease, Want
from longshore.pacing.claim_filter import HostCapacity, excluded_hosts
from longshore.queue import Count
from longshore.system.backoff import Backoff
from longshore.system.first_of import first_of
from longshore.worker.context import WorkerContext
from longshore.worker.loop.event_responder import EventResponder
from longshore.worker.loop.outage import Outage
from longshore.worker.loop.partition_scope import Partitions, PartitionScope

_CLAIMING, _WAITING, _COUNTING = "looking for work", "waiting for work", "asking whether the run is finished"


class JobSource:
    """Claims jobs that this worker wants, in the partitions of its scope, of hosts that may be asked now."""

    def __init__(
        self,
        context: WorkerContext,
        want: Want,
        scope: PartitionScope,
        hosts: HostCapacity,
        events: EventResponder,
        outage: Outage,
        stopping: asyncio.Event,
    ) -> None:
        self._queue = context.queue
        self._clock = context.clock
        self._leases = context.in_flight.leases
        self._want = want
        self._hosts = hosts
        self._events = events
        self._outage = outage
        self._stopping = stopping
        self._backoff = Backoff(0.5, 30.0)
        self.scope = scope
        self.claim_began = 0.0
        """When the last claim was sent (`HeldLeases.now`)."""

    @property
    def skipped_hosts(self) -> frozenset[str]:
        """The hosts that the last claim left out."""
        return self._want.without_hosts

    async def claim(self, limit: int) -> list[Lease] | None:
        """Return the claimed leases; None, after a wait, if the queue is out of reach."""
        held = (lease.job.host for lease in self._leases.held.values())
        self._want = msgspec.structs.replace(self._want, without_hosts=excluded_hosts(self._hosts, held))

        def take(partitions: Partitions) -> Awaitable[list[Lease]]:
            return self._queue.claim(msgspec.structs.replace(self._want, limit=limit, partitions=partitions))

        self.claim_began = self._leases.now()
        self._leases.claiming = True
        try:
            leases = await self.scope.claim(take)
        except PassingQueueError as error:
            await self._back_off(_CLAIMING, error)
            return None
        finally:
            self._leases.claiming = False
        self._backoff.reset()
        self._outage.over(_CLAIMING)
        self._events.available()
        return leases

    async def wait(self, timeout: timedelta) -> bool:
        """Return True as soon as there may be work, False after `timeout` or if the queue is out of reach."""
        reach = self.scope.reach
        if reach is not None and not reach:
            await self._clock.sleep(timeout.total_seconds())
            return False
        try:
            hinted = await self._queue.wait(msgspec.structs.replace(self._want, partitions=reach), timeout)
        except PassingQueueError as error:
            await self._back_off(_WAITING, error)
            return False
        self._outage.over(_WAITING)
        return hinted

    async def counts(self, run: str | None) -> Sequence[Count] | None:
        """Return the job counts of a run (of all runs for None); None, after a wait, if the queue is out of reach."""
        try:
            counts = await self._queue.stats(run)
        except PassingQueueError as error:
            await self._back_off(_COUNTING, error)
            return None
        self._outage.over(_COUNTING)
        return counts

    async def being_submitted(self, run: str | None) -> bool:
        """Return whether jobs are being added to a run (to any for None); True if the queue is out of reach."""
        try:
            return await being_submitted(self._queue, run)
        except PassingQueueError as error:
            await self._back_off(_COUNTING, error)
            return True

    async def _back_off(self, doing: str, error: PassingQueueError) -> None:
        left = self._outage.left(doing, error)
        if left <= 0:
            raise error
        wait = min(self._backoff.next(), left)
        self._events.unavailable(doing, error, wait)
        await first_of(self._clock.sleep(wait), self._stopping.wait())
