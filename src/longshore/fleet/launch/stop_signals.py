"""Requests to stop, heard while workers run: Ctrl-C and SIGTERM."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Call `stop` in the event loop for each SIGINT or SIGTERM, instead of ending the process."""
    if threading.current_thread() is not threading.main_thread():
        # Only the main thread can handle signals, and here it belongs to the calling program.
        yield
        return
    loop = asyncio.get_running_loop()

    def handle(_signal: int, _frame: FrameType | None) -> None:
        loop.call_soon_threadsafe(stop)

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
