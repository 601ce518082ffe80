"""The machine does not go to sleep while a worker runs; if that is impossible, it is logged once (A7)."""

from __future__ import annotations

import io
from typing import Any

import pytest

from longshore.handlers.handler import handler
from longshore.job import new_job
from longshore.media.memory import MemoryQueue
from longshore.observe import configure


@handler("echo")
async def echo(job: Any) -> Any:
    return job.payload


async def said_while_working(run_worker: Any) -> str:
    stream = io.StringIO()
    configure(format="text", stream=stream)
    queue = MemoryQueue()
    await queue.submit([new_job("echo", {})])
    report = await run_worker(queue, echo, keep_awake=True)
    assert report.completed == 1
    return stream.getvalue()


async def test_where_sleep_cannot_be_prevented_it_is_said_once_and_work_goes_on(
    run_worker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WAKEPY_FORCE_FAILURE", "1")
    said = await said_while_working(run_worker)
    assert said.count("may go to sleep") == 1
    assert "Worker tester initialized" in said.splitlines()[0]


async def test_where_it_can_nothing_is_said(run_worker: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WAKEPY_FAKE_SUCCESS", "1")
    assert "sleep" not in await said_while_working(run_worker)
