"""The events of a worker: each part reports here, and each event is counted, logged and told to those it concerns."""

from __future__ import annotations

from collections.abc import Sequence

from longshore.errors import QueueError
from longshore.lease import Lease
from longshore.outcome import Settlement
from longshore.worker.context import WorkerContext
from longshore.worker.lifecycle.shutdown import Shutdown
from longshore.worker.loop.executor import Interruption
from longshore.worker.loop.executor_pool import ExecutorPool
from longshore.worker.loop.idleness import Idleness
from longshore.worker.loop.prefetch import Prefetch
from longshore.worker.status.blockage import Blockage


class EventResponder:
    """Everything that one part of a worker reports and another acts on. Called in the worker's event loop."""

    def __init__(
        self,
        context: WorkerContext,
        shutdown: Shutdown,
        executors: ExecutorPool,
        prefetch: Prefetch,
        idleness: Idleness,
        blockage: Blockage,
    ) -> None:
        self._reporter = context.reporter
        self._counters = context.counters
        self._in_flight = context.in_flight
        self._leases = context.in_flight.leases
        self._shutdown = shutdown
        self._executors = executors
        self._prefetch = prefetch
        self._idleness = idleness
        self._blockage = blockage

    def unavailable(self, doing: str, error: QueueError, wait: float) -> None:
        """The queue is out of reach while `doing` something, and is tried again after `wait` seconds: log it."""
        self._blockage.queue_error = str(error)
        self._reporter.unavailable(doing, error, wait)

    def available(self) -> None:
        """The queue answered: log the end of an outage."""
        self._blockage.queue_error = ""
        self._reporter.available()

    def fatal(self, error: QueueError) -> None:
        """The queue cannot be used at all: stop the worker as failed."""
        self._blockage.queue_error = str(error)
        self._shutdown.fail(str(error))
        if self._leases.unsure:
            # The queue takes no outcome and renews no lease, so the attempts can no longer be settled.
            self.lost(list(self._leases.held.values()))

    def lost(self, leases: Sequence[Lease]) -> None:
        """These leases are no longer valid: end their attempts, whose outcomes would be refused."""
        held = self._leases
        for lease in leases:
            if held.held.get(lease.job.id) is not lease:
                continue
            self._counters.stale += 1
            self._reporter.lost_lease(lease, "the attempt is ended")
            held.let_go(lease)
            if lease in held.ready:
                held.ready.remove(lease)
            for executor in self._executors.executors:
                if executor.lease is lease:
                    executor.interrupt(Interruption.LOST)
        held.need.set()
        if not self._in_flight.pending.count:
            self.rested()

    def settled(self, settlements: list[Settlement], accepted: list[bool]) -> None:
        """The batch was written, or refused: count and log it, and let the claimer learn how long attempts take."""
        counters, reporter = self._counters, self._reporter
        finished = counters.finished
        verdicts = counters.count(settlements, accepted)
        for settlement in verdicts.refused:
            reporter.lost_lease(settlement.lease, "its outcome was refused")
        for settlement, again in verdicts.failed:
            finished += not again
            reporter.failed(settlement, finished, again=again)
        if verdicts.completed:
            reporter.completed(verdicts.completed, counters.finished)
        self.available()
        if verdicts.completed or verdicts.failed:  # a released job took no time, and says nothing about the next one
            self._prefetch.attempts_took(verdicts.seconds / len(settlements))
        self._leases.need.set()

    def rested(self) -> None:
        """No outcome waits to be written: the worker is idle, unless attempts are under way."""
        if not self._leases.held:
            self._idleness.begin()

    def paused(self, reason: str) -> None:
        """The start gate has closed: give back the jobs that are not begun, other workers may be able to run them."""
        self._blockage.pause_reason = reason
        self._in_flight.give_back(self._leases.take_back())
        self._reporter.paused(reason)

    def resumed(self) -> None:
        """The start gate is open again: log that work goes on."""
        self._blockage.pause_reason = ""
        self._reporter.resumed()
