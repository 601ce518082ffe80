"""Signals: which ones exist on this system, and how a process receives them."""

from __future__ import annotations

import os
import signal
import sys
import threading


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that ask a process to stop; on Windows Ctrl-Break is one of them."""
    if sys.platform == "win32":
        return (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK)
    else:
        return (signal.SIGINT, signal.SIGTERM)


def hangup_signal() -> signal.Signals | None:
    """Return SIGHUP, or None on Windows, which has no such signal."""
    if sys.platform == "win32":
        return None
    else:
        return signal.SIGHUP


def send_hangup(pid: int) -> None:
    """Send SIGHUP to a process; do nothing on Windows. Raise `OSError` if the process is gone."""
    # Never call `os.kill` on Windows: there it ends the process for every signal number.
    if (number := hangup_signal()) is not None:
        os.kill(pid, number)


def raise_in_main_thread(number: signal.Signals) -> None:
    """Raise a signal in this process so that its main thread notices at once. Every thread may call it."""
    if sys.platform == "win32":
        # The interpreter's wakeup descriptor wakes the event loop; the thread that receives the signal does not matter.
        signal.raise_signal(number)
    else:
        # Only a signal to the main thread itself interrupts the system call that it waits in.
        signal.pthread_kill(threading.main_thread().ident or 0, number)


def open_wakeup_pipe() -> tuple[int, int] | None:
    """Return the reading and the writing end of a pipe that receives the number of each signal.

    None on Windows, where the event loop needs the interpreter's only wakeup descriptor, and if another part of this
    process uses it. Undo with `close_wakeup_pipe`. Both may only be called in the main thread.
    """
    if sys.platform == "win32":
        return None
    else:
        reading, writing = os.pipe()
        os.set_blocking(reading, False)
        os.set_blocking(writing, False)
        if (other := signal.set_wakeup_fd(writing, warn_on_full_buffer=False)) == -1:
            return reading, writing
        signal.set_wakeup_fd(other)
        os.close(reading)
        os.close(writing)
        return None


def close_wakeup_pipe(pipe: tuple[int, int]) -> None:
    """Stop writing signals to the pipe, and close it."""
    signal.set_wakeup_fd(-1)
    for end in pipe:
        os.close(end)
