"""The first of several awaitables: its result or error counts, and nothing keeps running behind it."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import pytest

from longshore.system.first_of import first_of

T = TypeVar("T")


class Watched:
    """Waits for ever, and says whether it was cancelled and has cleaned up."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cleaned_up = False

    async def wait(self) -> str:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.cleaned_up = True
        return "never"


async def value(result: T) -> T:
    return result


async def failing(message: str) -> None:
    raise ValueError(message)


async def test_the_result_of_the_awaited_is_returned_and_the_others_are_over() -> None:
    other = Watched()
    assert await first_of(value(7), other.wait()) == 7
    assert other.cleaned_up is other.started.is_set()


async def test_none_is_returned_if_another_ends_first_and_the_awaited_is_over() -> None:
    awaited, other = Watched(), asyncio.Event()
    waiting = asyncio.ensure_future(first_of(awaited.wait(), other.wait()))
    await awaited.started.wait()
    other.set()
    assert await waiting is None
    assert awaited.cleaned_up


async def test_the_awaited_counts_if_both_end_at_the_same_time() -> None:
    assert await first_of(value(7), value(8)) == 7


async def test_the_result_of_the_awaited_is_not_lost_to_the_error_of_another() -> None:
    assert await first_of(value(7), failing("other")) == 7


async def test_a_task_that_has_ended_before_gives_its_result() -> None:
    task = asyncio.ensure_future(value(7))
    await task
    assert await first_of(task, asyncio.Event().wait()) == 7


async def test_the_error_of_the_awaited_is_raised() -> None:
    other = Watched()
    with pytest.raises(ValueError, match="awaited"):
        await first_of(failing("awaited"), other.wait())
    assert other.cleaned_up is other.started.is_set()


async def test_the_error_of_another_is_raised_if_it_ends_first() -> None:
    awaited = Watched()
    with pytest.raises(ValueError, match="other"):
        await first_of(awaited.wait(), failing("other"))
    assert awaited.cleaned_up


async def test_none_is_returned_when_the_time_is_over() -> None:
    awaited, other = Watched(), Watched()
    assert await first_of(awaited.wait(), other.wait(), timeout=0.001) is None
    assert (awaited.cleaned_up, other.cleaned_up) == (True, True)


async def test_a_result_in_time_is_returned_whatever_the_timeout() -> None:
    assert await first_of(value(7), timeout=60) == 7


async def test_cancelling_the_caller_cancels_all_and_waits_for_them() -> None:
    awaited, other = Watched(), Watched()
    caller = asyncio.ensure_future(first_of(awaited.wait(), other.wait()))
    await awaited.started.wait()
    await other.started.wait()
    caller.cancel()
    with pytest.raises(asyncio.CancelledError):
        await caller
    assert (awaited.cleaned_up, other.cleaned_up) == (True, True)


async def test_an_error_while_being_cancelled_does_not_hide_the_result() -> None:
    async def fails_when_cancelled() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            raise ValueError("cleaning up") from None

    awaited, other = asyncio.get_running_loop().create_future(), asyncio.ensure_future(fails_when_cancelled())
    waiting = asyncio.ensure_future(first_of(awaited, other))
    await asyncio.sleep(0)
    awaited.set_result(7)
    assert await waiting == 7
    assert isinstance(other.exception(), ValueError)


async def test_a_shielded_task_goes_on() -> None:
    end = asyncio.Event()
    task = asyncio.ensure_future(end.wait())
    assert await first_of(asyncio.shield(task), value(8)) is None
    end.set()
    assert await task is True


async def test_they_are_started_in_the_order_given() -> None:
    order: list[str] = []

    async def starts(name: str) -> None:
        order.append(name)

    await first_of(starts("awaited"), starts("second"), starts("third"))
    assert order == ["awaited", "second", "third"]
