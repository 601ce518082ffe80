"""The progress reporter: logs the progress of a worker every half minute, and shows its status every second."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from longshore.errors import QueueError
from longshore.masking import mask_text
from longshore.observe.health import MachineLoad, Vitals
from longshore.queue import Count, totals
from longshore.system.first_of import first_of
from longshore.worker.context import WorkerContext
from longshore.worker.loop.executor_pool import ExecutorPool
from longshore.worker.loop.partition_scope import PartitionScope
from longshore.worker.status.blockage import Blockage
from longshore.worker.status.story_reporter import StoryReporter
from longshore.worker.status.worker_figures import ToolFigures, WorkerFigures, waits_in_words
from longshore.worker.status.worker_status import StatusWatcher, worker_status

_PROGRESS_SECONDS = 30.0
_ANSWER_SECONDS = 1.0
"""How long the queue may take to say how many jobs remain. Without an answer the line is logged without the number."""
_FIGURES_SECONDS = 3.0
"""The shortest time between two questions for the figures that a person watches."""
_FIGURES_SHARE = 20
"""After a question, this many times as long as its answer took passes until the next one."""
_SILENT_SECONDS = 20.0
"""After this time without an answer, the queue counts as not answering."""


class ProgressReporter:
    """Logs and shows the progress of one worker."""

    def __init__(
        self,
        context: WorkerContext,
        executors: ExecutorPool,
        scope: PartitionScope,
        blockage: Blockage,
        tools: Callable[[], ToolFigures],
        watcher: StatusWatcher | None,
    ) -> None:
        """`tools` returns the present figures of the handlers' tools."""
        self._config = context.config
        self._clock = context.clock
        self._timer = context.queue.timer
        self._queue = context.queue
        self._reporter = context.reporter
        self._counters = context.counters
        self._in_flight = context.in_flight
        self._executors = executors
        self._scope = scope
        self._blockage = blockage
        self._tools = tools
        self._watcher = watcher
        self._started = self._clock.monotonic()
        self._asking: asyncio.Task[Count | None] | None = None
        self._figures = self._reporter.figures if isinstance(self._reporter, StoryReporter) else None
        self._figures_due = float("-inf")
        self._load = MachineLoad(self._clock)

    async def run(self) -> None:
        """Log and show it until cancelled."""
        logged_at, ended = self._clock.monotonic(), 0
        # At once: the first status tells the watcher that the worker has started.
        self.show()
        try:
            await self._refresh_figures()
            while True:
                await self._clock.sleep(1.0)
                await self._refresh_figures()
                self._reporter.flush()
                self.show()
                now = self._clock.monotonic()
                if now - logged_at < _PROGRESS_SECONDS:
                    continue
                logged_at = now
                if self._counters.ended == ended and not (self._in_flight.count or self._silence):
                    continue  # an idle worker has log lines of its own
                ended = self._counters.ended
                count = await self._count()
                remaining = None if count is None else count.remaining
                self._reporter.progress(
                    self.vitals(self._tools()),
                    self._in_flight.leases.under_way,
                    self._in_flight.pending.count,
                    remaining,
                )
        finally:
            if self._asking is not None:
                self._asking.cancel()

    def show(self) -> None:
        """Give the watcher, if there is one, the present status."""
        if self._watcher is None:
            return
        busy = sorted((each for each in self._executors.executors if each.lease is not None), key=lambda e: e.started)
        leases = [executor.lease for executor in busy if executor.lease is not None]
        silent = "the queue does not answer" if self._silence else ""
        tools = self._tools()
        preparing = waits_in_words({what: why for what, why in tools.waits.items() if what != "proxies"})
        self._watcher(
            worker_status(
                self._counters,
                self._scope,
                leases,
                trouble=self._blockage.pause_reason or self._blockage.queue_error or silent or preparing,
                limited_to=self._config.partitions,
                figures=WorkerFigures(
                    vitals=self.vitals(tools),
                    counters=self._counters,
                    tools=tools,
                    held=self._in_flight.count,
                    slots=len([each for each in self._executors.executors if not each.retired]),
                    waits=self._waits(tools),
                ),
            )
        )

    def vitals(self, tools: ToolFigures) -> Vitals:
        """Return the present health of the worker."""
        counters, machine = self._counters, self._load.measured()
        waits = {what: why for what, why in self._waits(tools).items() if what != "queue"}
        return Vitals(
            uptime=self._clock.monotonic() - self._started,
            claimed=counters.claimed,
            completed=counters.completed,
            failed=counters.failed,
            retried=counters.retried,
            busy_seconds=counters.busy_seconds,
            errors_in_a_row=counters.errors_in_a_row,
            queue_error=self._queue_error,
            queue_silence=self._silence,
            memory_percent=machine.memory_percent,
            memory_bytes=machine.memory_bytes,
            cpu_percent=machine.cpu_percent,
            waits_for=waits_in_words(waits),
            failed_check=self._blockage.failed_check,
        )

    def _waits(self, tools: ToolFigures) -> dict[str, str]:
        blockage = self._blockage
        silent = f"no answer for {self._silence:.0f} s" if self._silence else ""
        own = {"queue": self._queue_error or silent, "egress": blockage.pause_reason}
        return {what: why for what, why in {**own, **tools.waits}.items() if why}

    @property
    def _queue_error(self) -> str:
        """The cause alone: programs that ask for the health of the worker may not see what is secret in it."""
        error = self._blockage.queue_error
        return mask_text(error.partition(" Fix: ")[0]) if error else ""

    @property
    def _silence(self) -> float:
        """Seconds since the queue last answered; 0 while that is short."""
        silence = self._timer.silence
        return silence if silence > _SILENT_SECONDS else 0.0

    async def _refresh_figures(self) -> None:
        """Give the reporter the counts of the run, if a person watches and they are old."""
        began = self._clock.monotonic()
        if self._figures is None or began < self._figures_due:
            return
        count = await self._count()
        if count is not None:
            self._figures.note(count.total - count.remaining, count.remaining)
        now = self._clock.monotonic()
        self._figures_due = now + max(_FIGURES_SECONDS, _FIGURES_SHARE * (now - began))

    async def _count(self) -> Count | None:
        """Return the counts of the worker's run (without one, of all); None if the queue does not answer soon."""
        # If the last question still waits for its answer, no second one is sent.
        if self._asking is None or self._asking.done():
            self._asking = asyncio.create_task(self._ask())
        return await first_of(asyncio.shield(self._asking), self._clock.sleep(_ANSWER_SECONDS))

    async def _ask(self) -> Count | None:
        try:
            return totals(await self._queue.stats(self._config.run))
        except QueueError:
            return None  # the claimer logs that the queue is out of reach
