"""The tasks that a worker consists of. An error in one of them stops the worker; no task dies unnoticed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

from longshore.errors import LongshoreError

log = structlog.get_logger()


class Services:
    """The running tasks of one worker."""

    def __init__(self, fail: Callable[[str], None]) -> None:
        """`fail` stops the worker, with an error as its reason."""
        self._fail = fail
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run a coroutine as a task."""
        task = asyncio.create_task(self._guarded(coroutine))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def end(self) -> None:
        """Cancel all that still run, and wait until they have ended."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _guarded(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            await coroutine
        except LongshoreError as error:
            self._fail(str(error))
        except asyncio.CancelledError:
            raise
        except BaseException as error:
            self._fail(f"{type(error).__name__}: {error}")
            log.exception("The worker failed")
