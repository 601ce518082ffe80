"""The things that all parts of one worker share: its configuration, its queue, its clock, its log and its counts."""

from __future__ import annotations

from longshore.clock import Clock
from longshore.observe.traces import traced
from longshore.queue import Queue
from longshore.worker.config import WorkerConfig
from longshore.worker.leases.in_flight import InFlight
from longshore.worker.status.counters import WorkerCounters
from longshore.worker.status.log_reporter import LogReporter
from longshore.wrappers.worker_queue import WorkerQueue


class WorkerContext:
    """One worker: its configuration, and the state that its parts read and change together."""

    def __init__(self, config: WorkerConfig, clock: Clock, queue: Queue, reporter: LogReporter) -> None:
        """`queue` is the bare queue."""
        self.config = config
        self.clock = clock
        self.queue = WorkerQueue(traced(queue), clock, fingerprint=config.published)
        """The queue to claim from and to settle on."""
        self.reporter = reporter
        self.counters = WorkerCounters()
        self.in_flight = InFlight(clock, config.lease, config.batch_size)
