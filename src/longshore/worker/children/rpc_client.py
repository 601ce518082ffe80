"""The child's side of its calls to the worker (see `rpc_server`)."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from longshore.errors import ProcessingError, SnoozeError
from longshore.worker.children.wire import ChildNotice, ChildReply, ChildRequest, FromChild


class RpcClient:
    """Sends requests and notices to the worker, from any thread and any event loop."""

    def __init__(self, send: Callable[[FromChild], None]) -> None:
        self._send = send
        self._numbers = itertools.count()
        self._open: dict[int, Future[Any]] = {}
        self._lock = threading.Lock()

    async def call(self, name: str, *arguments: Any) -> Any:
        """Return the worker's answer. Raises `SnoozeError` if it is too soon, `ProcessingError` for any other error."""
        answer, number = self._expect()
        self._send(ChildRequest(number, name, arguments))
        return await asyncio.wrap_future(answer)

    def call_blocking(self, name: str, *arguments: Any) -> Any:
        """As `call`, for plain code: blocks until the answer comes."""
        answer, number = self._expect()
        self._send(ChildRequest(number, name, arguments))
        return answer.result()

    def notify(self, name: str, *arguments: Any) -> None:
        """Send a notice, which has no answer."""
        self._send(ChildNotice(name, arguments))

    def _expect(self) -> tuple[Future[Any], int]:
        answer: Future[Any] = Future()
        with self._lock:
            number = next(self._numbers)
            self._open[number] = answer
        return answer, number

    def replied(self, reply: ChildReply) -> None:
        """Pass an answer of the worker to the call that waits for it."""
        with self._lock:
            answer = self._open.pop(reply.number, None)
        if answer is None or not answer.set_running_or_notify_cancel():
            return
        if not reply.error:
            answer.set_result(reply.value)
        elif reply.snooze is not None:
            answer.set_exception(SnoozeError(reply.error, reply.snooze))
        else:
            answer.set_exception(ProcessingError(reply.error, retryable=reply.retryable))
