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
    from longshore.api.changes import archive, cancel, pause, resume, retry_jobs, submit
    from longshore.api.local_runs import run, run_async
    from longshore.api.local_workers import work
    from longshore.api.pages import fetch
    from longshore.api.published import pin, publish
    from longshore.api.reading import export, items, jobs, results, show, stats, status, wait
    from longshore.api.scrapers import start
    from longshore.handlers.handler import handler
    from longshore.handlers.kit import AsyncKit, Kit, SyncKit
    from longshore.handlers.result import Partial, Result, Snooze
    from longshore.handlers.worker_class import Task, Worker
    from longshore.job import Job, new_job
    from longshore.media import open_queue
    from longshore.observe.logs import log_context
    from longshore.runs.scrapers.registry import Scraper
    from longshore.runs.sources import product
    from longshore.scrape.block_pages import BlockPage
    from longshore.scrape.http.response import BlockPageError, StatusError
    from longshore.worker.loop.stop_conditions import stop_condition

__all__ = [
    "AsyncKit",
    "BlockPage",
    "BlockPageError",
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
    "archive",
    "cancel",
    "export",
    "fetch",
    "handler",
    "items",
    "jobs",
    "log_context",
    "new_job",
    "open_queue",
    "pause",
    "pin",
    "product",
    "publish",
    "results",
    "resume",
    "retry",
    "retry_jobs",
    "run",
    "run_async",
    "show",
    "start",
    "stats",
    "status",
    "stop_condition",
    "submit",
    "wait",
    "work",
]

install_renamed_modules()

if not TYPE_CHECKING:  # type checkers must see each name
    __getattr__ = lazy_exports(
        __name__,
        {
            "AsyncKit": "handlers.kit",
            "BlockPage": "scrape.block_pages",
            "BlockPageError": "scrape.http.response",
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
            "archive": "api.changes",
            "cancel": "api.changes",
            "export": "api.reading",
            "fetch": "api.pages",
            "handler": "handlers.handler",
            "items": "api.reading",
            "jobs": "api.reading",
            "log_context": "observe.logs",
            "new_job": "job",
            "open_queue": "media",
            "pause": "api.changes",
            "pin": "api.published",
            "product": "runs.sources",
            "publish": "api.published",
            "results": "api.reading",
            "resume": "api.changes",
            "retry_jobs": "api.changes",
            "run": "api.local_runs",
            "run_async": "api.local_runs",
            "show": "api.reading",
            "start": "api.scrapers",
            "stats": "api.reading",
            "status": "api.reading",
            "stop_condition": "worker.loop.stop_conditions",
            "submit": "api.changes",
            "wait": "api.reading",
            "work": "api.local_workers",
        },
    )


def __dir__() -> list[str]:
    return __all__
