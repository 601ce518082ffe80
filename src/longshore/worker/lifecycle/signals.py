"""Signals: the first asks the worker to drain, the second to leave at once."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, Self

from longshore.system.signals import close_wakeup_pipe, open_wakeup_pipe, stop_signals


class Signals:
    """While entered, counts SIGINT and SIGTERM (and Ctrl-Break) and tells the event loop.

    Plain signal handlers rather than the loop's own, which do not exist on Windows. They run in the main thread, when
    it next runs Python code. If a handler blocks that thread, `received` still counts: the interpreter writes each
    signal into a pipe the moment it arrives (not on Windows). Outside the main thread no signal is caught.
    """

    def __init__(self, notify: Callable[[str, int], None]) -> None:
        """`notify(name, count)` is called in the event loop, in the context of the caller of this constructor."""
        self._notify = notify
        # A signal arrives in any context, even that of an attempt; its log lines must have the context of the worker.
        self._context = contextvars.copy_context()
        self._loop = asyncio.get_running_loop()
        self._before: dict[int, Any] = {}
        self._exited = False
        self._count = 0
        self._arrived = 0
        self._pipe: tuple[int, int] | None = None

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for caught in stop_signals():
                self._before[caught] = signal.signal(caught, self._caught)
            self._pipe = open_wakeup_pipe()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._pipe is not None:
            close_wakeup_pipe(self._pipe)
            self._pipe = None
        self._exited = True
        for caught in self._before:
            # Workers in one process may end in any order: leave the handler of one that started later.
            if signal.getsignal(caught) == self._caught:
                signal.signal(caught, self._handler_before(caught))

    def received(self) -> int:
        """Return how many signals have come. For one thread at a time, which need not be the main one."""
        if self._pipe is not None:
            with contextlib.suppress(BlockingIOError):
                self._arrived += sum(number in self._before for number in os.read(self._pipe[0], 64))
        return max(self._count, self._arrived)

    def _handler_before(self, number: int) -> Any:
        """Return the handler to restore: the one before, and not that of a worker that has ended meanwhile."""
        before = self._before[number]
        owner = getattr(before, "__self__", None)
        return owner._handler_before(number) if isinstance(owner, Signals) and owner._exited else before

    def _caught(self, number: int, _frame: FrameType | None) -> None:
        self._count += 1
        name = signal.Signals(number).name
        self._loop.call_soon_threadsafe(self._notify, name, self._count, context=self._context)
