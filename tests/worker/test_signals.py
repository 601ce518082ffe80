"""Signals reach the worker on each system, by what that system has."""

from __future__ import annotations

import asyncio
import signal

import pytest

from longshore.worker.lifecycle.hangup import Hangup
from longshore.worker.lifecycle.signals import Signals


@pytest.fixture(params=["here", "windows"])
def platform(request: pytest.FixtureRequest) -> str:
    if request.param == "windows":
        request.getfixturevalue("windows")
    return str(request.param)


async def test_each_signal_is_told_and_counted(platform: str) -> None:
    told: asyncio.Queue[tuple[str, int]] = asyncio.Queue()
    before = signal.getsignal(signal.SIGTERM)
    with Signals(lambda name, count: told.put_nowait((name, count))) as caught:
        signal.raise_signal(signal.SIGTERM)
        assert await told.get() == ("SIGTERM", 1)
        signal.raise_signal(signal.SIGINT)
        assert await told.get() == ("SIGINT", 2)
        assert caught.received() == 2
    assert signal.getsignal(signal.SIGTERM) is before


async def test_workers_of_one_process_that_end_in_any_order_leave_no_handler_behind() -> None:
    told: asyncio.Queue[int] = asyncio.Queue()
    before = signal.getsignal(signal.SIGTERM)
    first, second = Signals(lambda *_: None), Signals(lambda _, count: told.put_nowait(count))
    first.__enter__()
    second.__enter__()
    last = signal.getsignal(signal.SIGTERM)
    first.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGTERM) == last
    signal.raise_signal(signal.SIGTERM)
    assert await told.get() == 1
    second.__exit__(None, None, None)
    assert signal.getsignal(signal.SIGTERM) is before


async def test_ctrl_break_stops_a_worker_on_windows(windows: None) -> None:
    told: asyncio.Queue[int] = asyncio.Queue()
    with Signals(lambda _, count: told.put_nowait(count)):
        signal.raise_signal(signal.SIGUSR2)  # it stands in for SIGBREAK
        assert await told.get() == 1


async def test_a_hangup_is_heard_except_on_windows(platform: str) -> None:
    asked = asyncio.Event()
    before = signal.getsignal(signal.SIGHUP)
    with Hangup(asked=asked.set, terminal_gone=asked.set):
        if platform == "windows":
            assert signal.getsignal(signal.SIGHUP) is before
        else:
            signal.raise_signal(signal.SIGHUP)
            await asked.wait()
    assert signal.getsignal(signal.SIGHUP) is before
