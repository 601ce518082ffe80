"""The memory limit of a plain handler: its process is ended when it, with all that it started, uses more."""

from __future__ import annotations

import asyncio
import contextlib
from functools import cache
from pathlib import Path

import psutil

from longshore.errors import CrashedError
from longshore.system import machine
from longshore.worker.children.child_process import ChildProcess

_EVERY = 0.2
"""Seconds between two looks. A look at the process itself takes microseconds."""
_LOOKS_PER_TREE = 10
"""At each tenth look its descendants are counted too, which takes longer."""
_SHARE = 0.5
"""The default limit, as a share of the memory of the machine or of its container."""
_CONTAINER = Path("/sys/fs/cgroup/memory.max")


@cache
def default_limit() -> int:
    """Return the limit of a handler that declares none: half of the memory that this machine or container has."""
    total = machine.memory()[1]
    with contextlib.suppress(OSError, ValueError):
        total = min(total, int(_CONTAINER.read_text()))
    return int(total * _SHARE)


class MemoryWatch:
    """Looks at the memory of a child process during one attempt, and kills it above the limit."""

    def __init__(self, child: ChildProcess, limit: int) -> None:
        """Begin to look, until `close`. `limit` is in bytes."""
        self._child = child
        self._limit = limit
        self._used = 0
        self._looks = 0
        self._process: psutil.Process | None = None
        self._killed = self._closed = False
        self._loop = asyncio.get_running_loop()
        self._timer = self._loop.call_later(_EVERY, self._look)

    @property
    def fault(self) -> CrashedError | None:
        """The error of an attempt that was ended at the limit; None if it was not."""
        if not self._killed:
            return None
        used, limit = f"{self._used / 1e6:,.0f} MB", f"{self._limit / 1e6:,.0f} MB"
        return CrashedError(
            f"it used {used} of memory, more than its limit of {limit}, and was ended. "
            'Raise the limit with @handler(..., memory="2GB"), or read its data in parts'
        )

    @property
    def swollen(self) -> bool:
        """Whether the process still holds much memory, for which its next job would be ended."""
        return self._used > self._limit / 2

    def close(self) -> None:
        """Look no more."""
        self._closed = True
        self._timer.cancel()

    def _look(self) -> None:
        try:
            process = self._process = self._process or psutil.Process(self._child.pid)
            own = process.memory_info().rss
        except psutil.Error:
            return  # it has died, which the attempt notices by itself
        self._looks += 1
        self._judge(own)
        if not self._killed and self._looks % _LOOKS_PER_TREE == 0:
            # In a thread: every process of the machine is looked at.
            counting = self._loop.run_in_executor(None, _with_descendants, process)
            counting.add_done_callback(self._counted)
        elif not self._killed:
            self._timer = self._loop.call_later(_EVERY, self._look)

    def _counted(self, counting: asyncio.Future[int]) -> None:
        if self._closed or counting.cancelled():
            return
        self._judge(counting.result())
        if not self._killed:
            self._timer = self._loop.call_later(_EVERY, self._look)

    def _judge(self, used: int) -> None:
        self._used = used
        if used > self._limit:
            self._killed = True
            self._child.kill_now()


def _with_descendants(process: psutil.Process) -> int:
    used = 0
    with contextlib.suppress(psutil.Error):
        for each in [process, *process.children(recursive=True)]:
            with contextlib.suppress(psutil.Error):
                used += each.memory_info().rss
    return used
