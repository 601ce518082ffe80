"""SIGHUP: "read your settings again" if a user or the fleet sends it, "your terminal is gone" if the system does."""

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
    """While entered, calls `asked` or `terminal_gone` in the event loop at each SIGHUP.

    Nothing is caught if the system has no such signal (Windows), if it is ignored already (`nohup`), and outside the
    main thread.
    """

    def __init__(self, *, asked: Callable[[], None], terminal_gone: Callable[[], None]) -> None:
        self._asked = asked
        self._terminal_gone = terminal_gone
        # It arrives in any context, even that of an attempt; its log lines must have the context of the worker.
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
