"""One worker process: claim, execute, settle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.system.lazy_exports import lazy_exports

if TYPE_CHECKING:
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

if not TYPE_CHECKING:  # a type checker is to know each name
    __getattr__ = lazy_exports(
        __name__,
        {
            "Exit": "report",
            "MaxEmptyPolls": "stop",
            "MaxIdle": "stop",
            "MaxMemory": "stop",
            "MaxWork": "stop",
            "Report": "report",
            "RunFinished": "stop",
            "Snapshot": "stop",
            "StopCondition": "stop",
            "WorkerConfig": "config",
            "stop_condition": "stop",
            "work": "worker",
        },
    )
