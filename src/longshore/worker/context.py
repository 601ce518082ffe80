"""The things that all parts of one worker share: its configuration, its queue, its clock, its log and its counts."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.clock import Clock
from longshore.queue import Queue
from longshore.worker.config import WorkerConfig
from longshore.worker.leases.in_flight import InFlight
from longshore.worker.status.counters import WorkerCounters
from longshore.worker.status.log_reporter import LogReporter
from longshore.wrappers.worker_queue import WorkerQueue, worker_queue


@dataclass(frozen=True)
class WorkerContext:
    """One worker: its configuration, and the state that its parts read and change together."""

    config: WorkerConfig
    clock: Clock
    wrapped: WorkerQueue
    """The queue with its wrappers."""
    reporter: LogReporter
    counters: WorkerCounters
    in_flight: InFlight

    @classmethod
    def of(cls, config: WorkerConfig, clock: Clock, queue: Queue, reporter: LogReporter) -> WorkerContext:
        """Return the context of a worker that starts now on this (bare) queue."""
        in_flight = InFlight.nothing(clock, config.lease, config.batch_size)
        return cls(config, clock, worker_queue(queue, clock), reporter, WorkerCounters(), in_flight)

    @property
    def queue(self) -> Queue:
        """The queue to claim from and to settle on."""
        return self.wrapped.queue
