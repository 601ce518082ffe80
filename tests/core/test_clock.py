"""The manual clock: stands still, and wakes exactly those it passes."""

from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from longshore.clock import ManualClock, SystemClock


async def settle() -> None:
    """Let every task go on that can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_manual_clock_stands_still_until_it_is_moved() -> None:
    clock = ManualClock(start=100.0)
    assert (clock.now(), clock.monotonic()) == (100.0, 0.0)
    clock.advance(2.5)
    assert (clock.now(), clock.monotonic()) == (102.5, 2.5)


async def test_only_sleepers_whose_time_has_come_wake() -> None:
    clock = ManualClock()
    tasks = [asyncio.create_task(clock.sleep(seconds)) for seconds in (3, 1, 2)]
    await settle()
    clock.advance(2)
    await settle()
    assert [task.done() for task in tasks] == [False, True, True]
    clock.advance(1)
    await asyncio.gather(*tasks)


async def test_a_sleeper_that_was_cancelled_disturbs_nobody() -> None:
    clock = ManualClock()
    gone, stays = asyncio.create_task(clock.sleep(1)), asyncio.create_task(clock.sleep(1))
    await settle()
    gone.cancel()
    await asyncio.wait({gone})
    clock.advance(1)
    await stays


async def test_sleeping_for_no_time_returns_without_the_clock_moving() -> None:
    clock = ManualClock()
    await clock.sleep(0)
    await clock.sleep(-1)
    assert clock.monotonic() == 0


@given(st.lists(st.floats(0.01, 100), min_size=1, max_size=8), st.floats(0.01, 100))
def test_who_wakes_is_who_slept_no_longer_than_time_went_by(naps: list[float], elapsed: float) -> None:
    async def woken() -> list[bool]:
        clock = ManualClock()
        tasks = [asyncio.create_task(clock.sleep(nap)) for nap in naps]
        await settle()
        clock.advance(elapsed)
        await settle()
        done = [task.done() for task in tasks]
        for task in tasks:
            task.cancel()
        return done

    assert asyncio.run(woken()) == [nap <= elapsed for nap in naps]


async def test_the_system_clock_goes_on() -> None:
    clock = SystemClock()
    before = clock.monotonic()
    await clock.sleep(0.001)
    assert clock.monotonic() > before
    assert clock.now() > 1_700_000_000
