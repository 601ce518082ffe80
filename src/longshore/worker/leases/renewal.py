"""Renewal: keeps the worker's leases alive in a thread that no handler can starve, and acts on what it learns.

Authority: the queue's answer to `renew` is the truth about the leases of this worker.
    held here, not in the answer           lost: the attempt is ended, its outcome would be refused
    in the answer, unknown here, twice     claimed in a call whose answer got lost: given back
Deadline: every third of a lease, so that two renewals may fail before a lease is in danger.

A queue that several processes may open is opened a second time, in a thread with an event loop of its own: a handler
that blocks the worker's loop does not stop the renewals. The watchdog runs in the same thread (see `watchdog`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable

import structlog

from longshore.errors import QueueError, QueueUnavailableError
from longshore.observe.logs import bind_worker
from longshore.settlement.orphaned_leases import OrphanedLeases
from longshore.worker.context import WorkerContext
from longshore.worker.leases.watchdog import Watchdog
from longshore.worker.loop.event_responder import EventResponder
from longshore.worker.loop.outage import Outage
from longshore.worker.loop.settlement_writer import SettlementWriter
from longshore.wrappers.worker_queue import WorkerQueue

_SHORTEST_INTERVAL = 0.3
_DOING = "renewing leases"

log = structlog.get_logger()


class Renewal:
    """The renewals of one worker. Made in the worker's event loop; runs in that of any thread."""

    def __init__(self, context: WorkerContext, events: EventResponder, outage: Outage) -> None:
        self._config = context.config
        self._in_flight = context.in_flight
        self._counters = context.counters
        self._events = events
        self._outage = outage
        self._orphans = OrphanedLeases(context.config.worker)
        self._loop = asyncio.get_running_loop()
        self.interval = max(_SHORTEST_INTERVAL, context.config.lease.total_seconds() / 3)
        """Seconds between two renewals."""

    async def run(self, queue: WorkerQueue, sleep: Callable[[float], Awaitable[None]]) -> None:
        """Renew until cancelled."""
        while True:
            await sleep(self.interval)
            try:
                await self.renew(queue)
            except QueueError as error:
                # Only this thread writes these two counts.
                self._counters.failed_renewals += 1
                self.failed(error, self.interval)
            else:
                self._counters.renewals += 1
                self._outage.over(_DOING)
                self._loop.call_soon_threadsafe(self._events.available)

    def failed(self, error: QueueError, wait: float) -> bool:
        """Report an error of the queue. Return whether to try again, after `wait` seconds. From any thread."""
        # An outage does not end the worker here, even if it drains: its attempts may end after the outage.
        again = isinstance(error, QueueUnavailableError) or self._outage.left(_DOING, error) > 0
        if again:
            self._loop.call_soon_threadsafe(self._events.unavailable, _DOING, error, wait)
        else:
            self._loop.call_soon_threadsafe(self._events.fatal, error)
        return again

    async def renew(self, queue: WorkerQueue) -> None:
        """Renew once, and act on the answer."""
        leases = self._in_flight.leases
        asked_at = leases.now()
        before, claiming = dict(leases.held), leases.claiming
        answer = set(await queue.renew(self._config.worker, self._config.lease))
        held = leases.held
        lost = [lease for lease in before.values() if lease.held not in answer and held.get(lease.job.id) is lease]
        if lost:
            self._loop.call_soon_threadsafe(self._events.lost, lost)
        self._loop.call_soon_threadsafe(leases.renewed, asked_at)
        if claiming or leases.claiming:
            return
        # The held leases first: a lease moves from there to the pending settlements, never back.
        known = {lease.held for lease in list(held.values())}
        known |= {settlement.lease.held for settlement in self._in_flight.pending.outstanding}
        await self._orphans.give_back(queue, answer - known - {lease.held for lease in before.values()})


class RenewalThread:
    """Renewal and watchdog, in a thread of their own with a queue of their own."""

    def __init__(
        self,
        renewal: Renewal,
        watchdog: Watchdog,
        open_writer: Callable[[], Awaitable[SettlementWriter]],
        label: str,
    ) -> None:
        """`open_writer` opens a second connection, in this thread's event loop; `label` names the worker in the log."""
        self._renewal = renewal
        self._watchdog = watchdog
        self._open_writer = open_writer
        self._label = label
        self._own: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[None] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._thread_main, name="longshore-renewal", daemon=True)

    def start(self) -> None:
        """Start the thread. The guardian hears of it before any handler runs: the first one may block everything."""
        self._watchdog.beat()
        self._thread.start()

    async def stop(self) -> None:
        """End the thread, and wait until it has ended."""
        self._stopped.set()
        if self._own is not None and self._task is not None:
            try:
                self._own.call_soon_threadsafe(self._task.cancel)
            except RuntimeError:
                log.debug("The renewal thread has ended before it was asked to")
        await asyncio.to_thread(self._thread.join, 10)

    def _thread_main(self) -> None:
        bind_worker(self._label)
        try:
            asyncio.run(self._run())
        except asyncio.CancelledError:
            return

    async def _run(self) -> None:
        self._own, self._task = asyncio.get_running_loop(), asyncio.current_task()
        writer: SettlementWriter | None = None
        while writer is None and not self._stopped.is_set():
            try:
                writer = await self._open_writer()
            except QueueError as error:
                wait = min(self._renewal.interval, 5.0)
                if not self._renewal.failed(error, wait):
                    return
                await asyncio.sleep(wait)
        if writer is None or self._stopped.is_set():
            return
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._renewal.run(writer.queue, asyncio.sleep))
                tasks.create_task(self._watchdog.run(writer))
        finally:
            await writer.close()
