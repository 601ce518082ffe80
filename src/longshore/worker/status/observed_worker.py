"""A single worker as its metrics port shows it, and its health file. A `StatusWatcher`."""

from __future__ import annotations

import os
from pathlib import Path

from longshore.clock import Clock
from longshore.observe.health_report import HealthReport, report_of, worker_health
from longshore.observe.metrics import Metrics
from longshore.worker.status.worker_metrics import add_workers
from longshore.worker.status.worker_status import WorkerStatus


class ObservedWorker:
    """The last status of the worker of this process."""

    def __init__(self, name: str, folder: Path, clock: Clock) -> None:
        """`name` is the worker's in metrics; `folder` is the data folder."""
        self._name = name
        self._folder = folder
        self._clock = clock
        self._status: WorkerStatus | None = None
        self._at = clock.monotonic()

    def __call__(self, status: WorkerStatus) -> None:
        """Take the status of this second."""
        self._status, self._at = status, self._clock.monotonic()

    def health(self) -> HealthReport:
        """Return the health of the worker."""
        figures = None if self._status is None else self._status.figures
        age = self._clock.monotonic() - self._at
        pid = os.getpid()
        return report_of(
            "worker", pid, (worker_health(self._name, pid, None if figures is None else figures.vitals, age, ""),)
        )

    def metrics(self) -> bytes:
        """Return the metrics of the worker."""
        metrics, status = Metrics(), self._status
        figures = [status.figures] if status is not None and status.figures is not None else []
        running = dict.fromkeys([self._name], figures[0]) if figures else {}
        add_workers(metrics, figures, running, self.health().workers, 0 if status is None else status.under_way)
        metrics.add_process("worker", self._folder)
        return metrics.text()
