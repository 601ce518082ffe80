"""The scheduler of a worker: it looks again and again, whatever happens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from structlog.testing import capture_logs

from longshore.clock import ManualClock
from longshore.errors import QueueUnavailableError, UsageError
from longshore.media.memory import MemoryQueue
from longshore.queue import Queue, Traits
from longshore.worker.loop.schedule_poller import SchedulePoller


class Looks:
    """Starts runs as scripted: each look returns or raises the next item."""

    def __init__(self, *answers: float | Exception) -> None:
        self.answers = list(answers)
        self.at: list[float] = []
        self.made: tuple[Any, ...] = ()

    def make(self, *given: Any) -> Looks:
        self.made = given
        return self

    async def look(self) -> float:
        self.at.append(self.made[1].monotonic())
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def until(condition: Callable[[], bool], clock: ManualClock) -> None:
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
        clock.advance(0.25)
    raise AssertionError("it never came to that")


async def looked(looks: Looks, times: int, queue: Queue | None = None) -> list[Any]:
    clock = ManualClock()
    with capture_logs() as said:
        running = asyncio.ensure_future(SchedulePoller(looks.make, queue or MemoryQueue(clock), clock, "me").run())
        await until(lambda: len(looks.at) == times, clock)
        running.cancel()
        await asyncio.wait([running])
    return [line["event"] for line in said]


async def test_it_looks_when_it_is_worth_it() -> None:
    looks = Looks(5.0, 60.0, 1.0)
    assert await looked(looks, 3) == []
    first, second, third = looks.at
    assert 5 <= second - first <= 6.5
    assert 60 <= third - second <= 61.5
    assert looks.made[2] == "me"


async def test_a_queue_out_of_reach_is_not_its_to_report() -> None:
    assert await looked(Looks(QueueUnavailableError("gone"), QueueUnavailableError("gone"), 1.0), 3) == []


async def test_any_other_error_is_logged_once_and_does_not_stop_the_worker() -> None:
    wrong = UsageError("that cannot be")
    assert await looked(Looks(wrong, wrong, 1.0), 3) == ["Schedules cannot be looked at: that cannot be"]


async def test_user_code_that_breaks_does_not_stop_the_worker() -> None:
    assert await looked(Looks(KeyError("x"), 1.0), 2) == ["A run of a schedule could not be started"]


@pytest.mark.parametrize("shares_state", [True, False])
async def test_without_schedules_there_is_nothing_to_do(shares_state: bool) -> None:
    queue = MemoryQueue()
    looks = Looks()
    if not shares_state:
        queue.traits = Traits(name="plain", spans_processes=False, spans_machines=False, wakes=False)
    await SchedulePoller(None if shares_state else looks.make, queue, ManualClock(), "me").run()
    assert looks.at == []
