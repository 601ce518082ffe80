"""Trouble of the queue that may pass by itself: a failover, a full disk, a repository that is away for a moment (A11).

The worker waits for it as long as its leases last, writes every outcome, and ends with code 1 only if it lasts longer.
"""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.errors import (
    ForeignQueueError,
    MissingQueueError,
    QueueError,
    QueueFullError,
    QueueUnavailableError,
    ReadOnlyQueueError,
)
from longshore.handlers.handler import handler
from longshore.job import State, new_job
from longshore.lease import WorkerId
from longshore.media.memory import MemoryQueue
from longshore.queue import Selection
from longshore.scrape.records import SegmentSink
from longshore.worker import MaxEmptyPolls, MaxIdle, RunFinished, WorkerConfig, WorkerReport
from longshore.worker import worker as worker_module

LEASE = timedelta(seconds=60)
PASSING = [ReadOnlyQueueError("a standby"), QueueFullError("no space"), MissingQueueError("not found")]


@handler("echo")
async def echo(job: Any) -> Any:
    return job.payload


class Troubled(MemoryQueue):
    """Raises an error from some of its methods until a moment of the clock."""

    def __init__(self, clock: ManualClock, error: QueueError, until: float, methods: Sequence[str]) -> None:
        super().__init__(clock)
        for name in methods:
            setattr(self, name, self._troubled(getattr(self, name), error, until, clock))

    @staticmethod
    def _troubled(method: Any, error: QueueError, until: float, clock: ManualClock) -> Any:
        async def call(*given: Any, **named: Any) -> Any:
            if clock.monotonic() < until:
                raise error
            return await method(*given, **named)

        return call


WRITES = ("claim", "settle", "renew", "reap")


@pytest.mark.parametrize("error", PASSING, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("methods", [WRITES, ("settle",), ("claim",), ("renew",), ("stats",)], ids="+".join)
async def test_a_worker_waits_for_trouble_that_passes_and_loses_no_outcome(
    run_worker: Any, advance: Any, clock: ManualClock, some_jobs: Any, error: QueueError, methods: Sequence[str]
) -> None:
    queue = Troubled(clock, error, 40.0, methods)
    await queue.submit(some_jobs("echo", 5))
    report = await advance(asyncio.create_task(run_worker(queue, echo, clock=clock, lease=LEASE)), clock, limit=1000)
    assert {job.state for job in await queue.jobs(Selection())} == {State.COMPLETED}
    assert (report.completed, report.exit_code) == (5, 0)


@pytest.mark.parametrize("methods", [WRITES, ("settle",), ("claim",), ("stats",)], ids="+".join)
async def test_a_worker_ends_with_1_when_the_trouble_lasts_longer_than_its_leases(
    run_worker: Any, advance: Any, clock: ManualClock, some_jobs: Any, methods: Sequence[str]
) -> None:
    queue = Troubled(clock, ReadOnlyQueueError("a standby"), 1e9, methods)
    await queue.submit(some_jobs("echo", 1))
    report = await advance(asyncio.create_task(run_worker(queue, echo, clock=clock, lease=LEASE)), clock, limit=1000)
    assert (report.exit_code, report.reason) == (1, "a standby")
    assert 60 <= clock.monotonic() < 200


async def test_trouble_that_cannot_pass_ends_the_worker_at_once(
    run_worker: Any, advance: Any, clock: ManualClock, some_jobs: Any
) -> None:
    queue = Troubled(clock, ForeignQueueError("not a queue"), 1e9, ("claim",))
    await queue.submit(some_jobs("echo", 1))
    report = await advance(asyncio.create_task(run_worker(queue, echo, clock=clock, lease=LEASE)), clock)
    assert (report.exit_code, report.reason, clock.monotonic() < 5) == (1, "not a queue", True)


async def test_records_wait_for_space_on_the_disk(
    run_worker: Any, advance: Any, clock: ManualClock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    flush = SegmentSink.flush

    async def full(sink: SegmentSink) -> None:
        if clock.monotonic() < 40:
            raise OSError(errno.ENOSPC, "No space left on device")
        await flush(sink)

    monkeypatch.setattr(SegmentSink, "flush", full)

    @handler("emits")
    async def emits(job: Any, kit: Any) -> None:
        kit.emit({"n": 1})

    queue = MemoryQueue(clock)
    await queue.submit([new_job("emits", {})])
    report = await advance(asyncio.create_task(run_worker(queue, emits, clock=clock, lease=LEASE)), clock, limit=1000)
    assert (report.completed, report.released, report.exit_code) == (1, 0, 0)


@pytest.mark.parametrize(
    ("stop", "reason"),
    [(MaxIdle(timedelta(minutes=2)), "no work for 120 s"), (MaxEmptyPolls(4), "no work in 4 looks in a row")],
    ids=["idle time", "empty polls"],
)
async def test_a_worker_that_lost_its_queue_does_not_say_that_there_is_no_work(
    run_worker: Any, advance: Any, clock: ManualClock, stop: Any, reason: str
) -> None:
    queue = Troubled(clock, QueueUnavailableError("no route to the server"), 1e9, ("claim", "stats", "wait"))
    report = await advance(asyncio.create_task(run_worker(queue, echo, clock=clock, stop=(stop,))), clock, limit=2000)
    assert report.exit_code == 1
    assert report.reason == f"{reason}: the queue is out of reach (no route to the server)"


@pytest.mark.parametrize("stop", [MaxIdle(timedelta(minutes=2)), MaxEmptyPolls(3)], ids=["idle time", "empty polls"])
async def test_a_worker_that_never_reaches_its_queue_ends_at_its_limits(
    monkeypatch: pytest.MonkeyPatch, advance: Any, clock: ManualClock, tmp_path: Path, stop: Any
) -> None:
    async def no_network(*_given: Any, **_named: Any) -> Any:
        raise QueueUnavailableError("no route to the server")

    monkeypatch.setattr(worker_module, "open_queue", no_network)
    config = WorkerConfig(
        queue_url="postgresql://127.0.0.1/none",
        handler_file=tmp_path / "handlers.py",
        worker=WorkerId.new("tester"),
        stop=(RunFinished(), stop),
    )
    working = worker_module.work(config, clock=clock, handlers={"echo": echo})
    report: WorkerReport = await advance(asyncio.create_task(working), clock, limit=1000)
    assert (report.exit_code, report.claimed) == (1, 0)
    assert report.reason.startswith("no work ")
    assert report.reason.endswith(": the queue is out of reach (no route to the server)")
