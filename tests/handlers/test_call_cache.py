"""kit.batched and kit.cache: calls in batches, and results that attempts share for a time (E13)."""

from __future__ import annotations

from typing import Any

import pytest

from longshore import AsyncKit, Job, SyncKit, handler
from longshore.clock import ManualClock
from longshore.errors import ProcessingError
from longshore.handlers.call_cache import CallCache
from longshore.testing import Completed, make_job, run_handler

CALLS: list[Any] = []


def channel(number: int, *, part: str = "all") -> str:
    CALLS.append((number, part))
    return f"channel {number} {part}"


async def channel_later(number: int) -> str:
    return channel(number)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(autouse=True)
def _no_calls() -> None:
    CALLS.clear()


def test_an_equal_call_is_made_once_until_its_result_is_too_old(clock: ManualClock) -> None:
    cache = CallCache(clock.monotonic)
    assert [cache.call(60, channel, 1), cache.call(60, channel, 1), cache.call(60, channel, 1, part="x")] == [
        "channel 1 all",
        "channel 1 all",
        "channel 1 x",
    ]
    assert CALLS == [(1, "all"), (1, "x")]
    clock.advance(61)
    cache.call(60, channel, 1)
    assert len(CALLS) == 3


async def test_an_awaited_result_is_kept_too(clock: ManualClock) -> None:
    cache = CallCache(clock.monotonic)
    assert [await cache.call(60, channel_later, 7) for _ in range(3)] == ["channel 7 all"] * 3
    assert CALLS == [(7, "all")]


def test_an_error_is_not_kept(clock: ManualClock) -> None:
    cache = CallCache(clock.monotonic)
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            cache.call(60, divmod, 1, 0)


def test_calls_that_cannot_be_compared_are_refused(clock: ManualClock) -> None:
    cache, secret = CallCache(clock.monotonic), "a"
    with pytest.raises(ProcessingError, match="at the top of the file"):
        cache.call(60, lambda: secret)
    with pytest.raises(ProcessingError, match="Pass text, numbers or tuples"):
        cache.call(60, channel, [1])  # type: ignore[arg-type]


def test_a_handler_reads_ids_in_batches_and_shares_results_with_other_calls() -> None:
    @handler("videos")
    def videos(job: Job, kit: SyncKit) -> Any:
        batches = [len(batch) for batch in kit.batched(range(120), 50)]
        return batches, [kit.cache(channel, ttl=3600)(5) for _ in range(3)]

    assert run_handler(videos, {}) == Completed([[50, 50, 20], ["channel 5 all"] * 3])
    assert CALLS == [(5, "all")]


async def test_an_async_handler_awaits_it() -> None:
    @handler("videos")
    async def videos(job: Job, kit: AsyncKit) -> Any:
        return [await kit.cache(channel_later, ttl=3600)(5) for _ in range(2)]

    assert CALLS == []
    assert (await videos.function(make_job({}), _kit())) == ["channel 5 all"] * 2
    assert CALLS == [(5, "all")]


def _kit() -> AsyncKit:
    from longshore.handlers.kit import NoTools

    return AsyncKit(None, NoTools(), make_job({}))  # type: ignore[arg-type]
