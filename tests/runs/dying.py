"""A process that copies and kills itself: before its Nth call to a queue (2N), or right after it (2N + 1).

python dying.py WHAT STEP SOURCE TARGET SHEET

It works in batches of two, so that a handful of jobs is many calls. It ends with 0 if it came through alive.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

from longshore.clock import SystemClock
from longshore.errors import UsageError
from longshore.media import open_queue
from longshore.queue import Queue
from longshore.runs.transfer import copy_jobs, move_jobs, offline_checkout, offline_merge
from longshore.wrappers.worker_queue import WorkerQueue

TERMS = offline_checkout.Terms(limit=5, hold=timedelta(hours=1), run="r")
ROUTE = ("here", "there")


class Mortal:
    """A queue whose caller dies at a certain step."""

    calls = 0

    def __init__(self, queue: Queue, step: int) -> None:
        self._queue = queue
        self._step = step
        self.traits = queue.traits

    # Extensions are found by the methods of the class.

    async def take_over(self, *given: Any) -> Any:
        return await self.__getattr__("take_over")(*given)

    async def read_entries(self, *given: Any) -> Any:
        return await self.__getattr__("read_entries")(*given)

    async def swap_entries(self, *given: Any) -> Any:
        return await self.__getattr__("swap_entries")(*given)

    async def register(self, *given: Any) -> Any:
        return await self.__getattr__("register")(*given)

    async def deregister(self, *given: Any) -> Any:
        return await self.__getattr__("deregister")(*given)

    async def present_workers(self) -> Any:
        return await self.__getattr__("present_workers")()

    def __getattr__(self, name: str) -> Callable[..., Awaitable[Any]]:
        call = getattr(self._queue, name)

        async def until_dead(*arguments: Any, **options: Any) -> Any:
            number = Mortal.calls
            Mortal.calls += 1
            if 2 * number == self._step:
                os.kill(os.getpid(), signal.SIGKILL)
            answer = await call(*arguments, **options)
            if 2 * number + 1 == self._step:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return until_dead


def _quiet(_: int) -> None:
    return None


async def copy(source: Any, target: Any, checkout_file: Path) -> None:
    """A plain copy."""
    await copy_jobs.copy(source, target, "r", progress=_quiet)


async def move(source: Any, target: Any, checkout_file: Path) -> move_jobs.Moved:
    """A move."""
    return await move_jobs.Move(WorkerQueue(source, SystemClock()), target, "r", route=ROUTE).carry_out(_quiet)


async def take(source: Any, target: Any, checkout_file: Path) -> int:
    """A checkout of five jobs, new or resumed."""
    try:
        own = offline_checkout.CheckoutFile.create(checkout_file, "here", TERMS)
    except UsageError:
        own = offline_checkout.CheckoutFile.read(checkout_file)
    return await offline_checkout.check_out(WorkerQueue(source, SystemClock()), target, own, progress=_quiet)


async def merge(source: Any, target: Any, checkout_file: Path) -> offline_merge.MergeResult:
    """The checkout (source) back into the queue it is from (target)."""
    return await offline_merge.merge(
        source,
        WorkerQueue(target, SystemClock()),
        offline_checkout.CheckoutFile.read(checkout_file),
        SystemClock(),
        progress=_quiet,
    )


DOINGS: dict[str, Callable[[Any, Any, Path], Awaitable[Any]]] = {
    "copy": copy,
    "move": move,
    "take": take,
    "merge": merge,
}


async def die(what: str, step: int, source: str, target: str, checkout_file: Path) -> None:
    """Do it until the step."""
    here, there = await open_queue(source), await open_queue(target)
    for module in (offline_checkout, copy_jobs, offline_merge, move_jobs):
        module.BATCH = 2  # type: ignore[attr-defined]
    await DOINGS[what](Mortal(here, step), Mortal(there, step), checkout_file)
    await here.close()
    await there.close()


if __name__ == "__main__":
    asyncio.run(die(sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4], Path(sys.argv[5])))
