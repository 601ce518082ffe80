"""A fleet as its metrics port shows it: the reports of its workers, added up, and what the supervisor knows itself."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

from longshore.clock import Clock
from longshore.fleet.supervise.supervisor import Phase, SupervisedWorker
from longshore.job import State
from longshore.observe.health_report import HealthReport, WorkerHealth, report_of, worker_health
from longshore.observe.metrics import Metrics
from longshore.ui.fleet.board import FleetBoard
from longshore.worker.status.worker_metrics import add_workers

_TROUBLE = {
    Phase.RESTARTING: "it crashed, and will be started again",
    Phase.GIVEN_UP: "it crashed too often, or could not be started, and is given up",
}


class ObservedFleet:
    """The fleet of this process."""

    def __init__(self, board: FleetBoard, data_folder: Path, clock: Clock) -> None:
        self._board = board
        self._folder = data_folder
        self._clock = clock
        self._seen_at: dict[int, float] = {}
        """When each process that has not reported was first seen here, by process id."""

    def health(self) -> HealthReport:
        """Return the health of the fleet and of each worker that should run."""
        workers = [
            self._worker(name, post)
            for name, post in self._board.posts.items()
            if post.phase not in (Phase.WAITING, Phase.ENDED)
        ]
        return report_of("fleet", os.getpid(), tuple(workers))

    def metrics(self) -> bytes:
        """Return the metrics of the fleet and its workers."""
        board, metrics = self._board, Metrics()
        last = [report.figures for reports in board.reports.values() for report in reports.values()]
        running = dict(board.running())
        add_workers(
            metrics,
            [figures for figures in last if figures is not None],
            {name: report.figures for name, report in running.items() if report.figures is not None},
            self.health().workers,
            sum(report.under_way for report in running.values()),
        )
        posts = board.posts.items()
        restarts = [({"worker": name}, post.ending.restarts) for name, post in posts]
        metrics.counters("worker_restarts", "Restarts after a crash.", restarts)
        phases = [({"phase": phase.value}, board.phases[phase]) for phase in Phase]
        metrics.gauges("workers", "Workers of the fleet by phase.", phases)
        states = [({"state": state.value}, getattr(board.count, state.value)) for state in State]
        metrics.gauges("queue_jobs", "Jobs by state.", states)
        metrics.add_process("fleet", self._folder)
        return metrics.text()

    def _worker(self, name: str, post: SupervisedWorker) -> WorkerHealth:
        board, pid = self._board, post.pid
        report = board.reports[name].get(pid or 0)
        vitals = None if report is None or report.figures is None else report.figures.vitals
        age = None if pid is None else self._age(pid)
        health = worker_health(name, pid, vitals, age, _TROUBLE.get(post.phase, ""))
        memory = board.memory.get(pid or 0)
        return health if memory is None else msgspec.structs.replace(health, memory_bytes=memory)

    def _age(self, pid: int) -> float:
        """Return the seconds since the last report of a process, or since it was first seen if there is none."""
        now, heard_at = self._clock.monotonic(), self._board.heard_at.get(pid)
        return now - (self._seen_at.setdefault(pid, now) if heard_at is None else heard_at)
