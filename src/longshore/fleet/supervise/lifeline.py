"""The lifeline: a pipe from the supervisor to a worker's standard input.

Each byte asks the worker to stop, as a signal would: the first to drain, the second to release its jobs and exit. The
end of the pipe means that the supervisor is gone, however it died, and asks the worker to drain. It is a pipe and not a
signal because a pipe also ends when the supervisor is killed, and because it works the same on Windows.

A worker that ends as intended writes a goodbye to its standard output. A worker that ends without one has crashed,
whatever its exit code is: a handler can end the process with any exit code.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable

from longshore.system.signals import raise_in_main_thread

STOP = b"."
GOODBYE = b"goodbye"
MIN_SPACING = 0.3
"""Seconds between two stop requests that are passed on to the worker."""


def _raise_stop() -> None:
    raise_in_main_thread(signal.SIGTERM)


def raise_interrupt() -> None:
    """Handle a stop request as Ctrl-C: for a worker whose supervisor is the command that the person started."""
    raise_in_main_thread(signal.SIGINT)


def hold_on(stop: Callable[[], None] = _raise_stop) -> None:
    """In a worker: watch the lifeline in a thread, and call `stop` for each stop request."""
    pipe = os.dup(0)
    # Child processes of the worker must neither read from the lifeline nor keep it open.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(pipe, stop), name="lifeline", daemon=True).start()


def _watch(pipe: int, stop: Callable[[], None]) -> None:
    asked = False
    # Unbuffered, one byte at a time: two requests that arrive together are still two.
    while os.read(pipe, 1):
        if asked:
            # Two signals of the same kind merge into one if the second arrives before the first is handled.
            time.sleep(MIN_SPACING)
        asked = True
        stop()
    if not asked:
        stop()
