"""One worker process: claim, execute, settle."""

from __future__ import annotations

from longshore.worker.config import WorkerConfig
from longshore.worker.report import Exit, Report
from longshore.worker.stop import (
    MaxEmptyPolls,
    MaxIdle,
    MaxMemory,
    MaxWork,
    RunFinished,
    Snapshot,
    StopCondition,
    stop_condition,
)
from longshore.worker.worker import work

__all__ = [
    "Exit",
    "MaxEmptyPolls",
    "MaxIdle",
    "MaxMemory",
    "MaxWork",
    "Report",
    "RunFinished",
    "Snapshot",
    "StopCondition",
    "WorkerConfig",
    "stop_condition",
    "work",
]
