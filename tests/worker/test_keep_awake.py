"""The machine does not go to sleep while a worker runs; if that is impossible, `doctor` says so (A7)."""

from __future__ import annotations

import io
from typing import Any

import pytest

from longshore.fleet.checks import CheckPlan, CheckVerdict
from longshore.fleet.checks.finding import CheckContext
from longshore.fleet.checks.machine import check_sleep
from longshore.handlers.handler import handler
from longshore.job import new_job
from longshore.media.memory import MemoryQueue
from longshore.observe import configure


@handler("echo")
async def echo(job: Any) -> Any:
    return job.payload


async def said_while_working(run_worker: Any, level: str = "info") -> str:
    stream = io.StringIO()
    configure(format="text", level=level, stream=stream)
    queue = MemoryQueue()
    await queue.submit([new_job("echo", {})])
    report = await run_worker(queue, echo, keep_awake=True)
    assert report.completed == 1
    return stream.getvalue()


async def test_where_sleep_cannot_be_prevented_only_the_debug_log_and_doctor_say_so(
    run_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEPY_FORCE_FAILURE", "1")
    assert (await said_while_working(run_worker, "debug")).count("may go to sleep") == 1
    assert "sleep" not in await said_while_working(run_worker)
    finding = await check_sleep(CheckContext(CheckPlan(), None))
    assert (finding.verdict, "no way to prevent sleep" in finding.what) == (CheckVerdict.SKIPPED, True)


async def test_where_it_can_nothing_is_said(run_worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEPY_FAKE_SUCCESS", "1")
    assert "sleep" not in await said_while_working(run_worker)
