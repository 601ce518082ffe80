"""The waiting room: all long polls that want the same wait for one call to the queue.

A poll for each would ask the queue as often as there are polls, and one new job would wake them all. Here the first one
is woken, and only while there are still jobs, twice as many each time: a job starts at once, a thousand jobs start
within moments, and two hundred idle workers cost as much as one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from datetime import timedelta

from longshore.job import NewJob
from longshore.lease import Want
from longshore.system.first_of import first_of
from longshore.wrappers.worker_queue import WorkerQueue

_LOOK = timedelta(seconds=60)
"""The length of one wait of the queue; another follows."""
_TURN_SECONDS = 0.005
"""The time for those that were woken to claim, before the queue is asked again."""
_QUIET_SECONDS = 0.1
"""If the queue had nothing for this long, the next job wakes one poll again."""

_Filter = tuple[str | None, frozenset[str] | None, frozenset[str] | None, frozenset[str]]


class WaitingRoom:
    """The long polls of one server."""

    def __init__(self, queue: WorkerQueue) -> None:
        self._queue = queue
        self._groups: dict[_Filter, _Group] = {}

    async def wait(self, want: Want) -> None:
        """Return when there may be a job for `want`, in the order of the calls. Raise as `Queue.wait` does."""
        wanted = (want.run, want.kinds, want.partitions, want.without_hosts)
        group = self._groups.get(wanted)
        if group is None or group.task.done():
            group = self._groups[wanted] = _Group(self._queue, want)
        waiter = asyncio.get_running_loop().create_future()
        group.waiters.append(waiter)
        try:
            await waiter
        finally:
            if waiter in group.waiters:
                group.waiters.remove(waiter)
            if not group.waiters:
                group.task.cancel()
                if self._groups.get(wanted) is group:
                    del self._groups[wanted]

    def hint(self, jobs: Iterable[NewJob]) -> None:
        """Look for these new jobs at once, without waiting for the queue to tell of them."""
        lanes = {(job.run, job.kind, job.partition) for job in jobs} if self._groups else ()
        for group in self._groups.values():
            if any(group.want.matches(*lane) for lane in lanes):
                group.hinted.set()


class _Group:
    """The polls with one filter, first come first."""

    def __init__(self, queue: WorkerQueue, want: Want) -> None:
        self.want = want
        self.hinted = asyncio.Event()
        self.waiters: deque[asyncio.Future[None]] = deque()
        self.task = asyncio.create_task(self._watch(queue, want))

    async def _watch(self, queue: WorkerQueue, want: Want) -> None:
        now = asyncio.get_running_loop().time
        number = 1
        try:
            while True:
                began = now()
                ready = await first_of(queue.wait(want, _LOOK), self.hinted.wait()) or self.hinted.is_set()
                self.hinted.clear()
                if now() - began > _QUIET_SECONDS:
                    number = 1
                if ready:
                    self._wake(number)
                    number *= 2
                    await asyncio.sleep(_TURN_SECONDS)
        except Exception as error:  # noqa: BLE001 (each poll raises it, and its route answers with it)
            while self.waiters:
                waiter = self.waiters.popleft()
                if not waiter.done():
                    waiter.set_exception(error)

    def _wake(self, number: int) -> None:
        while number and self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                number -= 1
