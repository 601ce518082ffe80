"""A plain handler that uses more memory than it may is ended, with a clear outcome; others go on (item 9)."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from longshore.errors import HandlerFileError
from longshore.handlers.handler import handler
from longshore.handlers.load import load_handlers
from longshore.job import State, new_job
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection

HANDLERS = """
import threading
from longshore import handler

@handler("parse", memory="200MB", retries=0, timeout=120)
def parse(job):
    rows = bytearray(job.payload["mb"] * 1_000_000)
    rows[::4096] = b"x" * len(rows[::4096])
    if job.payload["mb"] > 200:
        threading.Event().wait()
    return len(rows)
"""


async def test_it_is_ended_above_its_limit_and_the_next_job_runs(run_worker: Any, tmp_path: Path) -> None:
    file = tmp_path / "memory.py"
    file.write_text(HANDLERS)
    queue = MemoryQueue()
    await queue.submit([new_job("parse", {"mb": mb}, run="r") for mb in (400, 1)])
    parse = load_handlers(file)["parse"]
    report = await run_worker(queue, parse, handler_file=file, concurrency=1)
    assert (report.completed, report.failed) == (1, 1)
    [failed] = await queue.jobs(Selection(states=frozenset({State.FAILED})))
    assert failed.failure is not None
    assert failed.failure.error_type == "crash"
    assert "more than its limit of 200 MB, and was ended" in failed.failure.message
    assert failed.payload == {"mb": 400}


@pytest.mark.parametrize(
    ("written", "bytes_"),
    [("500MB", 500_000_000), ("1.5 GB", 1_500_000_000), ("512MiB", 512 * 1024**2), (60_000_000, 60_000_000)],
)
def test_sizes_are_read_as_people_write_them(written: str | int, bytes_: int) -> None:
    assert handler("page", memory=written)(lambda job: None).memory == bytes_


@pytest.mark.parametrize("wrong", ["much", "-1MB", True, "1MB", 0])
def test_other_sizes_are_refused(wrong: Any) -> None:
    with pytest.raises(HandlerFileError, match="memory="):
        handler("page", memory=wrong)(lambda job: None)


def test_an_async_handler_has_no_process_of_its_own() -> None:
    async def page(job: Any) -> None:
        threading.Event().is_set()

    with pytest.raises(HandlerFileError, match="plain `def`"):
        handler("page", memory="500MB")(page)
