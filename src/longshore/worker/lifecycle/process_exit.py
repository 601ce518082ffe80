"""The end of a worker's process. Threads that a handler left running cannot delay it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, Protocol

_LAST_SECONDS = 2.0
"""How long to wait for threads that are about to end anyway."""


class HasExitCode(Protocol):
    """A result that has the exit code of the process."""

    @property
    def exit_code(self) -> int: ...


def run_and_exit(working: Coroutine[Any, Any, HasExitCode], ended: Callable[[], None] | None = None) -> int:
    """Run `working` and return its exit code; if threads still run then, end the process with that code.

    Python waits for every thread before it exits, and a thread cannot be ended from outside. `ended` is called when
    `working` has returned.
    """
    return asyncio.run(_run(working, ended))


async def _run(working: Coroutine[Any, Any, HasExitCode], ended: Callable[[], None] | None) -> int:
    pool = ThreadPoolExecutor(thread_name_prefix="longshore")
    asyncio.get_running_loop().set_default_executor(pool)
    before = set(threading.enumerate())
    code = int((await working).exit_code)
    if ended is not None:
        ended()
    pool.shutdown(wait=False, cancel_futures=True)
    left = [thread for thread in threading.enumerate() if thread not in before and not thread.daemon]
    for thread in left:
        thread.join(timeout=_LAST_SECONDS / len(left))
    if any(thread.is_alive() for thread in left):
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)
    return code
