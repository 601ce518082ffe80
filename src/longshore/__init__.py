"""Longshore runs scraping and document jobs on as many machines as you have.

These are its public names; everything else is found in the module that says what it is.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from longshore.errors import (
    ConnectionFailedError,
    CrashedError,
    LongshoreError,
    ProcessingError,
    SnoozeError,
    TimedOutError,
    ValidationError,
    WorkerError,
)
from longshore.handlers.handler import handler
from longshore.handlers.kit import Kit
from longshore.handlers.result import Partial, Result, Snooze
from longshore.job import Job, new_job
from longshore.media import open_queue
from longshore.retry import retry

if TYPE_CHECKING:
    from longshore.api import start, stats
    from longshore.handlers.worker_class import Worker
    from longshore.observe.logs import log_context
    from longshore.runs.scrapers import Scraper
    from longshore.runs.sources import product
    from longshore.worker.stop import stop_condition

__all__ = [
    "ConnectionFailedError",
    "CrashedError",
    "Job",
    "Kit",
    "LongshoreError",
    "Partial",
    "ProcessingError",
    "Result",
    "Scraper",
    "Snooze",
    "SnoozeError",
    "TimedOutError",
    "ValidationError",
    "Worker",
    "WorkerError",
    "handler",
    "log_context",
    "new_job",
    "open_queue",
    "product",
    "retry",
    "start",
    "stats",
    "stop_condition",
]

# Imported on use: what they need takes longer to import than all the rest.
_LATE = {
    "Scraper": "longshore.runs.scrapers",
    "Worker": "longshore.handlers.worker_class",
    "log_context": "longshore.observe.logs",
    "product": "longshore.runs.sources",
    "start": "longshore.api",
    "stats": "longshore.api",
    "stop_condition": "longshore.worker.stop",
}


def __getattr__(name: str) -> Any:
    if name not in _LATE:
        raise AttributeError(f"module 'longshore' has no attribute '{name}'")
    return getattr(importlib.import_module(_LATE[name]), name)


def __dir__() -> list[str]:
    return __all__
