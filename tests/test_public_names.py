"""The public names are pinned: adding one is a decision, losing one breaks users."""

from __future__ import annotations

import subprocess
import sys

import longshore
import longshore.testing
from longshore.errors import WorkerError

PUBLIC = {
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
}
TESTING = {
    "Completed",
    "Failed",
    "FakeHttp",
    "ManualClock",
    "MemoryQueue",
    "Snoozed",
    "make_job",
    "run_handler",
}


def test_the_public_names_are_these() -> None:
    assert set(longshore.__all__) == PUBLIC
    assert set(dir(longshore)) == PUBLIC
    assert set(longshore.testing.__all__) == TESTING


def test_every_public_name_is_there_and_says_what_it_promises() -> None:
    for name in PUBLIC:
        assert getattr(longshore, name).__doc__, name
    for name in TESTING:
        assert getattr(longshore.testing, name).__doc__, name


def test_every_kind_of_worker_error_is_public() -> None:
    assert {c.__name__ for c in WorkerError.__subclasses__() if c.__module__ == "longshore.errors"} <= PUBLIC


def test_retry_stays_the_decorator_when_its_module_is_imported() -> None:
    code = "import longshore.retry, longshore; assert longshore.retry.__name__ == 'retry' and callable(longshore.retry)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_importing_longshore_imports_nothing_heavy() -> None:
    code = "import sys, longshore; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert not {"aiohttp", "pydantic", "structlog", "stamina", "rich", "typer", "sqlite3"} & set(done.stdout.split())
