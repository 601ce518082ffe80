"""SIGHUP: "read your settings again" where somebody sends it, "your terminal is gone" where the system does."""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from longshore.system.signals import hangup_signal
from longshore.system.terminal import has_terminal


class Hangup:
    """While entered, tells the event loop of each SIGHUP which of the two it meant.

    Where there is no such signal, where it is ignored already (`nohup`) and outside the main thread, nothing is caught.
    """

    def __init__(self, *, asked: Callable[[], None], terminal_gone: Callable[[], None]) -> None:
        self._asked = asked
        self._terminal_gone = terminal_gone
        # It arrives in any context, even that of an attempt; what is said of it is the worker's.
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._had_terminal = False
        self._caught_number: signal.Signals | None = None
        self._before: Any = None

    def __enter__(self) -> Self:
        number = hangup_signal()
        if number is None or threading.current_thread() is not threading.main_thread():
            return self
        if signal.getsignal(number) is not signal.SIG_IGN:
            self._had_terminal = has_terminal()
            self._caught_number, self._before = number, signal.signal(number, self._caught)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._caught_number is not None:
            signal.signal(self._caught_number, self._before)

    def _caught(self, _number: int, _frame: FrameType | None) -> None:
        gone = self._had_terminal and not has_terminal()
        self._loop.call_soon_threadsafe(self._terminal_gone if gone else self._asked, context=self._context)
