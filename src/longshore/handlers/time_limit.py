"""The timeout of a plain function that runs in the calling thread.

A process cannot take back a call, so the function is made to end itself: from the timeout on, an exception is raised in
its thread once a second. In the main thread this is done by a signal, which also ends a wait in a system call. In other
threads, and on Windows, the exception comes when the function runs Python code again. If the first one does not help,
processes that the function started are killed, too: it may wait for one. A function that does not end within the grace
period can only be ended together with its process: that is left to the caller.
"""

from __future__ import annotations

import contextlib
import ctypes
import signal
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import TypeVar

import psutil

from longshore.errors import TimedOutError

T = TypeVar("T")

GRACE_SECONDS = 10.0
"""How long a function may take to end after its timeout."""
_AGAIN_SECONDS = 1.0
_CLOCK_TICK = 0.02
"""The start of a process is known only this exactly."""


class _TimeIsUpError(BaseException):
    """Raised in the function. Not an `Exception`, so that `except Exception` does not keep it from ending."""


class TimeLimit:
    """Runs one function, and ends it at its timeout."""

    def __init__(self, seconds: float, error: TimedOutError, overdue: Callable[[], None]) -> None:
        """`error` is raised in place of what the function does after `seconds`.

        `overdue` is called, in another thread, if the function does not end: it must end the process.
        """
        self._seconds = seconds
        self._error = error
        self._overdue = overdue
        self._thread = threading.get_ident()
        self._signal = _signal_for_this_thread()
        self._lock = threading.Lock()
        self._ended = False
        self._time_is_up = False
        self._over = threading.Event()

    def run(self, function: Callable[[], T]) -> T:
        """Return what the function returns, or raise what it raises; or the error, if it took too long."""
        before = None if self._signal is None else signal.signal(self._signal, self._raise)
        threading.Thread(target=self._watch, name="longshore-timeout", daemon=True).start()
        try:
            try:
                value = function()
            finally:
                self._end()
        except BaseException as error:
            self._end()
            if self._time_is_up and not isinstance(error, KeyboardInterrupt):
                raise self._error from None
            raise
        finally:
            if self._signal is not None:
                signal.signal(self._signal, before)
        if self._time_is_up:
            raise self._error
        return value

    @property
    def expired(self) -> bool:
        """Whether the function has reached its timeout."""
        return self._time_is_up

    def _end(self) -> None:
        self._ended = True
        with self._lock:
            if self._signal is None:
                # An exception that was not raised yet must not be raised in the code after the function.
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), None)
        self._over.set()

    def _raise(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if not self._ended:
            raise _TimeIsUpError

    def _watch(self) -> None:
        began = _process_clock()
        if self._over.wait(self._seconds):
            return
        self._time_is_up = True
        until = time.monotonic() + GRACE_SECONDS
        while True:
            self._interrupt()
            if self._over.wait(_AGAIN_SECONDS):
                return
            if time.monotonic() >= until:
                break
            _kill_children_since(began - _CLOCK_TICK)
        self._overdue()

    def _interrupt(self) -> None:
        with self._lock:
            if self._ended:
                return
            if sys.platform != "win32" and self._signal is not None:
                signal.pthread_kill(self._thread, self._signal)
            else:
                error = ctypes.py_object(_TimeIsUpError)
                ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._thread), error)


def _signal_for_this_thread() -> signal.Signals | None:
    """Return the signal that ends a call in this thread; None if there is none. Programs hardly ever use this one."""
    if sys.platform != "win32" and threading.current_thread() is threading.main_thread():
        return signal.SIGVTALRM
    return None


def _process_clock() -> float:
    """Return the present time by the clock in which `psutil` tells when a process started.

    On Linux that is the time since boot, added to a boot time in whole seconds: up to a second behind the usual clock.
    """
    if sys.platform == "linux":
        return psutil.boot_time() + time.clock_gettime(time.CLOCK_BOOTTIME)
    # after an `if` without `else`, the type checker takes this line for unreachable
    return time.time()


def _kill_children_since(began: float) -> None:
    """Kill the processes that this one has started since then: a function may wait for one in C code."""
    for child in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            if child.create_time() >= began:
                child.kill()
