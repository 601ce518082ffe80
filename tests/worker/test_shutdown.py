"""A worker that cannot go on logs why as an error and ends with code 1, no matter which part learns it first."""

from __future__ import annotations

import asyncio
import io
import json
from typing import Any

import pytest

from longshore.clock import ManualClock
from longshore.errors import ForeignQueueError, QueueError
from longshore.handlers.handler import handler
from longshore.media.memory import MemoryQueue
from longshore.observe.logs import configure

LOST = "This is no queue. Name another file."


@handler("echo")
async def echo(job: Any) -> Any:
    return job.payload


class Failing(MemoryQueue):
    """A queue of which one method does not work any more."""

    def __init__(self, clock: ManualClock, method: str, error: QueueError) -> None:
        super().__init__(clock)

        async def fail(*_given: Any, **_named: Any) -> Any:
            raise error

        setattr(self, method, fail)


@pytest.fixture
def said() -> io.StringIO:
    stream = io.StringIO()
    configure(format="json", stream=stream)
    return stream


def errors(stream: io.StringIO) -> list[str]:
    entries = [json.loads(line) for line in stream.getvalue().splitlines()]
    return [entry["message"] for entry in entries if entry["level"] == "error"]


@pytest.mark.parametrize("method", ["claim", "settle", "reap", "renew", "stats"])
async def test_a_queue_that_is_lost_is_an_error_and_code_1(
    run_worker: Any, advance: Any, clock: ManualClock, some_jobs: Any, said: io.StringIO, method: str
) -> None:
    queue = Failing(clock, method, ForeignQueueError(LOST))
    # Of two kinds: the other's jobs keep it running until its leases are renewed.
    await queue.submit([*some_jobs("echo", 3), *some_jobs("other", 1)])
    report = await advance(asyncio.create_task(run_worker(queue, echo, clock=clock)), clock, limit=2000)
    assert (report.exit_code, report.reason) == (1, LOST)
    assert errors(said)[0] == f"STOPPING: {LOST}"


async def test_a_queue_that_is_lost_while_it_stops_for_another_reason_is_an_error_too(
    run_worker: Any, advance: Any, clock: ManualClock, some_jobs: Any, said: io.StringIO
) -> None:
    begun, go = asyncio.Event(), asyncio.Event()

    @handler("slow")
    async def slow(job: Any) -> None:
        begun.set()
        await go.wait()

    queue = Failing(clock, "settle", ForeignQueueError(LOST))
    await queue.submit(some_jobs("slow", 1))
    stops: list[str] = []

    class WhenTold:
        def check(self, snapshot: Any) -> str | None:
            return stops[0] if stops else None

    task = asyncio.create_task(run_worker(queue, slow, clock=clock, stop=(WhenTold(),)))
    await begun.wait()
    stops.append("told so")
    while "STOPPING: told so" not in said.getvalue():
        assert clock.monotonic() < 60, "it does not stop"
        clock.advance(0.5)
        await asyncio.sleep(0.001)
    go.set()
    report = await advance(task, clock, limit=2000)
    assert (report.exit_code, report.reason) == (1, "told so")
    assert errors(said)[0] == f"The worker cannot shut down cleanly: {LOST}"
    assert len(errors(said)) == 2  # said once, however often it was tried; and how many outcomes were lost
