"""How far the worker is: said every half minute, and shown every second to whoever watches it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from longshore.clock import Clock
from longshore.errors import QueueError
from longshore.queue import Queue
from longshore.system.first_of import first_of
from longshore.worker.config import WorkerConfig
from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.executor_pool import ExecutorPool
from longshore.worker.loop.partition_scope import PartitionScope
from longshore.worker.loop.settler import Settler
from longshore.worker.status.counters import WorkerCounters
from longshore.worker.status.log_reporter import LogReporter
from longshore.worker.status.worker_status import StatusWatcher, worker_status
from longshore.wrappers.call_timer import TimedQueue

_PROGRESS_SECONDS = 30.0
_MOMENT = 1.0
"""What the queue is given to say how much remains. Whoever waits for the line does not care why there is none."""
_SILENT_SECONDS = 20.0
"""After this long without an answer, the queue counts as one that does not answer."""


class Progress:
    """Knows how the worker stands. What is wrong at the moment it is told."""

    def __init__(
        self,
        config: WorkerConfig,
        clock: Clock,
        attended: TimedQueue,
        queue: Queue,
        reporter: LogReporter,
        tally: WorkerCounters,
        hand: HeldLeases,
        settler: Settler,
        crew: ExecutorPool,
        scope: PartitionScope,
        watcher: StatusWatcher | None,
        proxies_rest: Callable[[], str],
    ) -> None:
        """`attended` knows of every call to the `queue`, `proxies_rest` where requests wait for a proxy."""
        self._config = config
        self._clock = clock
        self._attended = attended
        self._queue = queue
        self._reporter = reporter
        self._tally = tally
        self._hand = hand
        self._settler = settler
        self._crew = crew
        self._scope = scope
        self._watcher = watcher
        self._proxies_rest = proxies_rest
        self._started = clock.monotonic()
        self._asking: asyncio.Task[int | None] | None = None
        self.queue_error = ""
        """What the queue refused with last; empty once it has answered."""
        self.pause_reason = ""
        """Why nothing may begin; empty while it may."""

    async def run(self) -> None:
        """Say and show it until cancelled."""
        said_at, ended = self._clock.monotonic(), 0
        # At once: whoever watches knows by it that the worker was started well.
        self.show()
        try:
            while True:
                await self._clock.sleep(1.0)
                self._reporter.flush()
                self.show()
                now = self._clock.monotonic()
                if now - said_at < _PROGRESS_SECONDS:
                    continue
                said_at = now
                if self._tally.ended == ended and not (self._hand.held or self._settler.busy or self._silence):
                    continue  # idle, which has lines of its own
                ended = self._tally.ended
                remaining = await self._remaining()
                uptime, cause = self._clock.monotonic() - self._started, self.queue_error.partition(" Fix: ")[0]
                vitals = self._tally.vitals(uptime, cause, self._silence)
                self._reporter.progress(vitals, self._hand.under_way, self._settler.busy, remaining)
        finally:
            if self._asking is not None:
                self._asking.cancel()

    def show(self) -> None:
        """Tell the watcher, where there is one."""
        if self._watcher is None:
            return
        under_way = sorted((r for r in self._crew.runners if r.lease is not None), key=lambda r: r.started)
        leases = [runner.lease for runner in under_way if runner.lease is not None]
        silent = "the queue does not answer" if self._silence else ""
        trouble = self.pause_reason or self.queue_error or silent
        limits = self._config.partitions
        self._watcher(
            worker_status(
                self._tally,
                self._scope,
                leases,
                trouble=trouble,
                proxies_rest=self._proxies_rest(),
                limited_to=limits,
            )
        )

    @property
    def _silence(self) -> float:
        """For how long the queue has not answered; 0 while that is nothing to speak of."""
        silence = self._attended.silence
        return silence if silence > _SILENT_SECONDS else 0.0

    async def _remaining(self) -> int | None:
        """How many jobs of its run are unfinished; None where the queue does not say so within a moment."""
        # A question that hangs is not asked a second time beside the first.
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await first_of(asyncio.shield(self._asking), self._clock.sleep(_MOMENT))

    async def _ask(self) -> int | None:
        try:
            return sum(count.remaining for count in await self._queue.stats(self._config.run))
        except QueueError:
            return None  # whoever claims says so aloud
