"""Signals exist or not; what is sent arrives, and what does not exist is not sent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator

import pytest

from longshore.system import signals


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """The signals that the main thread was interrupted by."""
    found: list[int] = []
    before = {number: signal.signal(number, lambda n, _: found.append(n)) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield found
    for number, handler in before.items():
        signal.signal(number, handler)


def test_ctrl_break_asks_to_stop_only_where_it_exists(platform: str) -> None:
    common = (signal.SIGINT, signal.SIGTERM)
    assert signals.stop_signals() == (common if platform == "posix" else (*common, signal.SIGUSR2))


def test_there_is_a_hangup_except_on_windows(platform: str) -> None:
    assert signals.hangup_signal() == (signal.SIGHUP if platform == "posix" else None)


def test_a_hangup_is_sent_only_where_it_exists(platform: str, heard: list[int]) -> None:
    signals.send_hangup(os.getpid())
    assert heard == ([signal.SIGHUP] if platform == "posix" else [])


def test_a_hangup_for_a_process_that_is_gone_is_an_error() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with pytest.raises(ProcessLookupError):
        signals.send_hangup(gone.pid)


def test_another_thread_can_raise_a_signal_in_the_main_thread(platform: str, heard: list[int]) -> None:
    thread = threading.Thread(target=signals.raise_in_main_thread, args=(signal.SIGTERM,))
    thread.start()
    thread.join()
    assert heard == [signal.SIGTERM]


def test_signals_are_written_to_the_pipe_except_on_windows(platform: str, heard: list[int]) -> None:
    pipe = signals.open_wakeup_pipe()
    if platform == "windows":
        assert pipe is None
        assert signal.set_wakeup_fd(-1) == -1
        return
    assert pipe is not None
    signal.raise_signal(signal.SIGTERM)
    assert os.read(pipe[0], 64) == bytes([signal.SIGTERM])
    with pytest.raises(BlockingIOError):
        os.read(pipe[0], 64)
    signals.close_wakeup_pipe(pipe)
    assert signal.set_wakeup_fd(-1) == -1


def test_a_wakeup_pipe_of_another_stays_in_place() -> None:
    first = signals.open_wakeup_pipe()
    assert first is not None
    try:
        assert signals.open_wakeup_pipe() is None
        assert signal.set_wakeup_fd(first[1], warn_on_full_buffer=False) == first[1]
    finally:
        signals.close_wakeup_pipe(first)
