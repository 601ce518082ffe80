"""One worker process: claim, execute, settle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.system.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from longshore.worker.config import WorkerConfig
    from longshore.worker.loop.stop_conditions import (
        MaxEmptyPolls,
        MaxIdle,
        MaxMemory,
        MaxWork,
        RunFinished,
        Snapshot,
        StopCondition,
        stop_condition,
    )
    from longshore.worker.status.counters import Exit, WorkerReport
    from longshore.worker.worker import work

__all__ = [
    "Exit",
    "MaxEmptyPolls",
    "MaxIdle",
    "MaxMemory",
    "MaxWork",
    "RunFinished",
    "Snapshot",
    "StopCondition",
    "WorkerConfig",
    "WorkerReport",
    "stop_condition",
    "work",
]

if not TYPE_CHECKING:  # a type checker must see each name
    __getattr__ = lazy_exports(
        __name__,
        {
            "Exit": "status.counters",
            "MaxEmptyPolls": "loop.stop_conditions",
            "MaxIdle": "loop.stop_conditions",
            "MaxMemory": "loop.stop_conditions",
            "MaxWork": "loop.stop_conditions",
            "WorkerReport": "status.counters",
            "RunFinished": "loop.stop_conditions",
            "Snapshot": "loop.stop_conditions",
            "StopCondition": "loop.stop_conditions",
            "WorkerConfig": "config",
            "stop_condition": "loop.stop_conditions",
            "work": "worker",
        },
    )
