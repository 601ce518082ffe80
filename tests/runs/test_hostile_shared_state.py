"""No shared entry stops a worker or a command: the key of a volunteer may write the rates of hosts."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest
from tests.scrape.limited_site import JumpingClock

from longshore.clock import ManualClock
from longshore.errors import LongshoreError
from longshore.extensions.presence import worker_info
from longshore.extensions.shared_state import StateEntry
from longshore.extensions.worker_orders import ORDERS, WorkerOrder, give_order, order_for
from longshore.media.memory import MemoryQueue
from longshore.pacing.limiter import LearnedLimiter
from longshore.pacing.store_shared import CLOSED, FORGOTTEN, PACE, SharedRateStore
from longshore.runs.control.pause import paused
from longshore.runs.schedules.schedule import NAMESPACE, schedules
from longshore.runs.schedules.trigger import ScheduleTrigger
from longshore.runs.submit.submission import RUN_IDS, new_run_id
from longshore.server.pages.words import time_tag
from longshore.ui.words import moment
from longshore.wrappers.differing_duplicates import DIFFERING, differing_of
from longshore.wrappers.growth_limits import LEFT_OUT, LIMITS, left_out_of, limits_of
from longshore.wrappers.paused import PAUSED

HUGE = 10**400
NUMBERS: list[Any] = [HUGE, -HUGE, 1e308, -1e308, 1e18, 0, -1, True, "x", None, [], {}]
NAMES = ("until", "at", "since", "max_jobs", "max_depth", "too_deep", "order", "kinds", "rate", "slots", "of", "pause")
VALUES: list[Any] = [[], {}, "x", 5, True, HUGE, *({name: number} for name in NAMES for number in NUMBERS)]
SCHEDULE: dict[str, Any] = {
    "when": {"cron": "0 2 * * *", "zone": "UTC"},
    "what": {"type": "list", "entries": [{"payload": {"url": "http://x/"}}]},
    "kind": "page",
}


@pytest.fixture
def queue(clock: ManualClock) -> MemoryQueue:
    return MemoryQueue(clock)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.mark.parametrize("value", VALUES, ids=lambda value: repr(value)[:40])
async def test_no_shared_entry_stops_a_worker_or_a_command(queue: MemoryQueue, clock: ManualClock, value: Any) -> None:
    for namespace in (CLOSED, PACE, PAUSED, LIMITS, LEFT_OUT, DIFFERING, RUN_IDS, NAMESPACE):
        await queue.swap_entries(namespace, [StateEntry("a.org", "", value)])
    await queue.swap_entries(FORGOTTEN, [StateEntry(PACE, "", value)])
    await queue.swap_entries(ORDERS, [StateEntry("a.org w", "", value)])
    store = SharedRateStore(queue)
    await store.read("a.org")
    await store.closures()
    await store.all()
    await store.forget()
    await store.close_host("a.org", clock.now() + 5)
    _, closed = await store.closures()
    assert "a.org" in closed
    assert all(moment(since) and time_tag(since) for since in (await paused(queue)).values())
    await limits_of(queue, "a.org")
    await left_out_of(queue, "a.org")
    await differing_of(queue, None)
    await order_for(queue, "a.org", "w")
    await give_order(queue, "b", "w", WorkerOrder.DRAIN)
    assert await new_run_id(queue, clock)
    assert (await schedules(queue))[1] == {}
    worker_info(value)


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: repr(number)[:20])
@pytest.mark.parametrize("name", ["made", "last", "last_jobs", "priority", "max_attempts", "begun", "when", "limits"])
async def test_no_schedule_stops_the_other_schedules(
    queue: MemoryQueue, clock: ManualClock, name: str, number: Any
) -> None:
    values = {"begun": {"instant": number, "run": "..", "by": "w", "seen": number}, "limits": {"max_jobs": number}}
    evil = {**SCHEDULE, name: values.get(name, number)}
    good = {**SCHEDULE, "made": clock.now()}
    await queue.swap_entries(NAMESPACE, [StateEntry("evil", "", evil), StateEntry("good", "", good)])
    clock.advance(86_400)
    trigger = ScheduleTrigger(queue, clock, "w")
    for _ in range(3):
        await trigger.look()
    assert any(count.run.startswith("good_") for count in await queue.stats())


@pytest.mark.parametrize(
    "number", [HUGE, -HUGE, 1e308, -1e308, 1e-308, 0, -1, "x"], ids=lambda number: repr(number)[:20]
)
@pytest.mark.parametrize("name", ["rate", "next", "closed_until", "crawl_delay", "gap", "burst", "width", "plan"])
async def test_a_rate_that_no_worker_can_have_learned_does_not_stop_a_worker(name: str, number: Any) -> None:
    clock = JumpingClock()
    queue = MemoryQueue(clock)
    learned = {"rate": 100.0, "grown_at": clock.now() - 3600, "refusals": 1, "burst": 5.0}
    evil = {**learned, name: [[number, number]] if name == "plan" else number}
    await queue.swap_entries(PACE, [StateEntry("a.org", "", evil)])
    limiter = LearnedLimiter(SharedRateStore(queue), clock)

    async def ask() -> None:
        for status in (200, 429, 403, 200):
            with suppress(LongshoreError):  # a host may be closed by others, which is no crash
                await limiter.slot("a.org", patience=5.0)
            limiter.answered("a.org", "", status, None, 0.1)
            limiter.capacity("a.org")

    asking = asyncio.ensure_future(ask())
    await clock.run(120)
    assert asking.done()
    await asking
    await limiter.close()
