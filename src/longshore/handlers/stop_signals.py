"""Signals that stop a `Worker` class: the first one asks, the next has its default effect."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stopped_by_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` at the first SIGINT or SIGTERM of the block."""
    # Only the main thread can set signal handlers.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, old in before.items():
            signal.signal(number, old)

    def stopping(number: int, frame: FrameType | None) -> None:
        del number, frame
        restore()
        stop()

    for number in before:
        signal.signal(number, stopping)
    try:
        yield
    finally:
        restore()
