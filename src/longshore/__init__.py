"""Longshore runs scraping and document jobs on as many machines as you have.

These are its public names; all other names are imported from their modules.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
from longshore.renamed import install_renamed_modules

# Not imported lazily: the module of the same name would replace the function.
from longshore.retry import retry
from longshore.system.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from longshore.api import start, stats
    from longshore.handlers.handler import handler
    from longshore.handlers.kit import AsyncKit, Kit, SyncKit
    from longshore.handlers.result import Partial, Result, Snooze
    from longshore.handlers.worker_class import Task, Worker
    from longshore.job import Job, new_job
    from longshore.media import open_queue
    from longshore.observe.logs import log_context
    from longshore.runs.scrapers.registry import Scraper
    from longshore.runs.sources import product
    from longshore.scrape.http.response import StatusError
    from longshore.worker.loop.stop_conditions import stop_condition

__all__ = [
    "AsyncKit",
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
    "StatusError",
    "SyncKit",
    "Task",
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

install_renamed_modules()

if not TYPE_CHECKING:  # type checkers must see each name
    __getattr__ = lazy_exports(
        __name__,
        {
            "AsyncKit": "handlers.kit",
            "Job": "job",
            "Kit": "handlers.kit",
            "Partial": "handlers.result",
            "Result": "handlers.result",
            "Scraper": "runs.scrapers.registry",
            "Snooze": "handlers.result",
            "StatusError": "scrape.http.response",
            "SyncKit": "handlers.kit",
            "Task": "handlers.worker_class",
            "Worker": "handlers.worker_class",
            "handler": "handlers.handler",
            "log_context": "observe.logs",
            "new_job": "job",
            "open_queue": "media",
            "product": "runs.sources",
            "start": "api",
            "stats": "api",
            "stop_condition": "worker.loop.stop_conditions",
        },
    )


def __dir__() -> list[str]:
    return __all__
