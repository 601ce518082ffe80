"""The queue as a `Worker` class needs it: plain calls, with the leases kept alive behind them.

One thread with one event loop makes every call to the queue, so nothing the class does in its own thread can starve the
renewals, and no medium needs to be opened twice. Every third of a lease length it renews the held leases, brings back
the jobs of dead workers, publishes that the worker is alive, and looks for orders to it. All calls go through the
wrappers that every worker uses: pause and run limits hold too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from datetime import timedelta
from typing import Any

from longshore.clock import SystemClock
from longshore.errors import QueueError
from longshore.extensions.find import find
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.extensions.shared_state import SharedState
from longshore.extensions.worker_orders import WorkerOrder, order_for
from longshore.lease import Held, Lease, Want
from longshore.outcome import Outcome, Released, Settlement
from longshore.queue import Queue
from longshore.settlement.orphaned_leases import OrphanedLeases
from longshore.settlement.repair import REFUSALS, reconsidered, unstorable
from longshore.system.backoff import Backoff
from longshore.system.first_of import first_of
from longshore.system.loop_thread import LoopThread
from longshore.system.machine import machine_name
from longshore.wrappers.worker_queue import WorkerQueue

FIRST_PAUSE = 0.25
LONGEST_PAUSE = 30.0
"""The first and the longest wait between two tries to settle, in seconds, while the queue does not answer."""


class LeaseKeeper:
    """Claims, holds and settles jobs for one worker. All methods are plain and may be called from any thread."""

    def __init__(
        self, opened: Coroutine[Any, Any, Queue], want: Want, log: Any, obey: Callable[[WorkerOrder], None]
    ) -> None:
        """Open the queue. Raises what opening it raises. `obey` is called, in another thread, with an order."""
        self._want = want
        self._log = log
        self._obey = obey
        self._held: dict[Held, Lease] = {}
        self._lost: set[Held] = set()
        self._orphans = OrphanedLeases(want.worker)
        self._claiming = False
        self._wake = asyncio.Event()
        self._thread = LoopThread("longshore-leases")
        try:
            self._queue = WorkerQueue(self._thread.call(opened), SystemClock())
        except BaseException:
            self._thread.close()
            raise
        self._services = self._thread.call(self._begin())

    def ping(self) -> None:
        """Raise if the queue does not answer."""
        self._thread.call(self._queue.stats())

    def claim(self) -> Lease | None:
        """Return the lease of the next job, or None. If there is none, jobs of dead workers are brought back first."""
        return self._thread.call(self._claim())

    def settle(self, lease: Lease, outcome: Outcome, seconds: float | None) -> Outcome | None:
        """Write the outcome and return it; None if the queue refused it because the lease is lost.

        If the medium cannot store the outcome, a failure is written and returned in its place. While the queue does not
        answer, it is tried again for a lease length; then the error is raised.
        """
        return self._thread.call(self._settle(Settlement(lease, outcome, seconds)))

    def lost(self, lease: Lease) -> bool:
        """Return whether a renewal found that the job was cancelled or went to another worker."""
        return lease.held in self._lost

    def wait(self, timeout: timedelta) -> None:
        """Wait until there may be work, `wake` is called, or `timeout` is over."""
        self._thread.call(self._wait(timeout))

    def wake(self) -> None:
        """End the present `wait`, or else the next. Safe in a signal handler."""
        # If the loop closes meanwhile, nothing waits in it.
        with suppress(RuntimeError):
            self._thread.loop.call_soon_threadsafe(self._wake.set)

    def close(self) -> None:
        """Give back the held jobs and close the queue."""
        try:
            self._thread.call(self._let_go())
        finally:
            self._thread.close()

    async def _begin(self) -> list[asyncio.Task[None]]:
        return [asyncio.create_task(self._keep()), asyncio.create_task(self._queue.keep())]

    async def _claim(self) -> Lease | None:
        self._claiming = True
        try:
            leases = await self._queue.claim(self._want)
            if not leases and (await self._queue.reap()).returned:
                leases = await self._queue.claim(self._want)
        finally:
            self._claiming = False
        if not leases:
            return None
        self._held[leases[0].held] = leases[0]
        return leases[0]

    async def _settle(self, settlement: Settlement) -> Outcome | None:
        now = asyncio.get_running_loop().time
        give_up = now() + self._want.lease.total_seconds()
        backoff, tries = Backoff(FIRST_PAUSE, LONGEST_PAUSE), 0
        while True:
            tries += 1
            try:
                accepted = await self._queue.settle([settlement])
                break
            except REFUSALS as error:
                settlement = unstorable(settlement, error)
            except Exception as error:
                # Not the job's fault: the queue does not answer, or this process has passing trouble of its own.
                wait = backoff.next()
                if (isinstance(error, QueueError) and not error.retryable) or now() + wait > give_up:
                    raise
                self._log.warning("The outcome could not be written; settling again soon", error=str(error))
                await asyncio.sleep(wait)
        if tries > 1:
            accepted = await reconsidered(self._queue, [settlement], accepted)
        self._held.pop(settlement.lease.held, None)
        self._lost.discard(settlement.lease.held)
        return settlement.outcome if accepted[0] else None

    async def _wait(self, timeout: timedelta) -> None:
        try:
            await first_of(self._queue.wait(self._want, timeout), self._wake.wait())
        finally:
            self._wake.clear()

    async def _keep(self) -> None:
        try:
            await self._register()
        except Exception as error:  # noqa: BLE001 (logged here; the next renewal tries again)
            self._log.warning("The worker could not be registered as alive", error=str(error))
        while True:
            await asyncio.sleep(self._want.lease.total_seconds() / 3)
            try:
                await self._renew()
                await self._queue.reap()
                await self._look_for_orders()
            except Exception as error:  # noqa: BLE001 (logged here; if no renewal succeeds, settling fails)
                self._log.warning("Leases could not be renewed", error=str(error))

    async def _renew(self) -> None:
        # Only leases held before the call count: a claim or a settlement may come in between.
        asked, claiming = list(self._held), self._claiming
        still = set(await self._register())
        for held in asked:
            if held in self._held and held not in still and held not in self._lost:
                self._lost.add(held)
                self._log.warning("lost lease: the job was cancelled, or went to another worker", job_id=held.job_id)
        if not claiming and not self._claiming:
            await self._orphans.give_back(self._queue, still - set(asked) - set(self._held))

    async def _register(self) -> list[Held]:
        """Renew the leases, and publish that the worker is alive on queues that know which workers are."""
        worker, lease, kinds = self._want.worker, self._want.lease, self._want.kinds
        registry = find(self._queue, WorkerRegistry)
        if registry is None:
            return await self._queue.renew(worker, lease)
        taken = None if kinds is None else tuple(sorted(kinds))
        info = WorkerInfo(machine=machine_name(), slots=1, busy=len(self._held), kinds=taken, run=None)
        return await registry.register(worker, lease, info)

    async def _look_for_orders(self) -> None:
        state, worker = find(self._queue, SharedState), self._want.worker
        order = None if state is None else await order_for(state, worker.label, worker.public_incarnation)
        if order is not None:
            self._obey(order)

    async def _let_go(self) -> None:
        for service in self._services:
            service.cancel()
        await asyncio.gather(*self._services, return_exceptions=True)
        try:
            if self._held:
                await self._queue.settle([Settlement(lease, Released()) for lease in self._held.values()])
            await self._queue.tell()
            registry = find(self._queue, WorkerRegistry)
            if registry is not None:
                await registry.deregister(self._want.worker)
        except QueueError as error:
            self._log.warning(
                "The held jobs could not be given back; they come back when their lease expires", error=str(error)
            )
        finally:
            await self._queue.close()
