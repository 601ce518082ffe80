"""One thread that makes blocking calls for an event loop, and that the end of the process does not wait for."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")


class DaemonThread:
    """Makes calls one after the other, in one thread: a database must be read by the thread that opened it.

    A `ThreadPoolExecutor` is joined when the process ends, so a call that waits for a pipe would hold up the exit.
    """

    def __init__(self, name: str) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def call(self, function: Callable[[], T]) -> T:
        """Return what `function` returns. If the caller is cancelled, a call that has begun goes on by itself."""
        answer: Future[T] = Future()
        context = contextvars.copy_context()
        self._calls.put((answer, lambda: context.run(function)))
        return await asyncio.wrap_future(answer)

    def close(self, last: Callable[[], object]) -> None:
        """Make one last call, and end the thread. Returns at once: a call may be waiting for a pipe."""
        self._calls.put((Future(), last))
        self._calls.put(None)

    def _work(self) -> None:
        while (asked := self._calls.get()) is not None:
            answer, function = asked
            if not answer.set_running_or_notify_cancel():
                continue
            try:
                result = function()
            except BaseException as error:  # noqa: BLE001 - raised where the answer is awaited
                answer.set_exception(error)
            else:
                answer.set_result(result)
