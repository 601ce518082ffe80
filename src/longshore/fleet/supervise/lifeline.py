"""The line between a supervisor and its workers: the worker's standard input.

Each byte on it asks the worker to stop, as a signal would: the first to drain, the second to give everything back and
leave. Its end means that the supervisor is gone, however it died, and asks the worker to drain. It is a pipe and not a
signal because pipes also end when a process is killed, and because they work the same on Windows.

A worker that has come to its end says goodbye on its standard output. One that ends without has crashed, whatever its
exit code: a handler may end the process of the worker with any.
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
APART = 0.3
"""Seconds between two requests that are passed on."""


def _raise_stop() -> None:
    raise_in_main_thread(signal.SIGTERM)


def hold_on(stop: Callable[[], None] = _raise_stop) -> None:
    """In a worker: watch the line, and call `stop` for each request to stop."""
    line = os.dup(0)
    # Whatever the worker starts must neither read from the line nor keep it open.
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    threading.Thread(target=_watch, args=(line, stop), name="lifeline", daemon=True).start()


def _watch(line: int, stop: Callable[[], None]) -> None:
    asked = False
    # Unbuffered and byte by byte: two requests that arrive together are still two.
    while os.read(line, 1):
        if asked:
            # Two signals of one kind become one if the second comes before the first was noticed.
            time.sleep(APART)
        asked = True
        stop()
    if not asked:
        stop()
