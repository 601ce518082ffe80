"""The waiting room: all long polls that want the same wait for one call to the queue.

A poll for each would ask the queue as often as there are polls, and one new job would wake them all. Here the first one
is woken, and only while there are still jobs after it has claimed, twice as many each time, until one finds none: a job
starts at once, a thousand jobs start within moments, and two hundred idle workers cost as much as one.
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
_AT_ONCE = timedelta(0)
_TURN_SECONDS = 0.005
"""The time for those that were woken to claim, before the queue is asked again."""
_CLAIM_SECONDS = 0.25
"""After this time, those that were woken and have not claimed are waited for no longer."""
_Filter = tuple[str | None, frozenset[str] | None, frozenset[str] | None, frozenset[str]]


class WaitingRoom:
    """The long polls of one server."""

    def __init__(self, queue: WorkerQueue) -> None:
        self._queue = queue
        self._groups: dict[_Filter, _Group] = {}

    async def wait(self, want: Want) -> Turn:
        """Return when there may be a job for `want`, in the order of the calls. Raise as `Queue.wait` does.

        The caller ends the turn when it has claimed.
        """
        wanted = (want.run, want.kinds, want.partitions, want.without_hosts)
        group = self._groups.get(wanted)
        if group is None or group.task.done():
            group = self._groups[wanted] = _Group(self._queue, want)
        waiter: asyncio.Future[Turn] = asyncio.get_running_loop().create_future()
        group.waiters.append(waiter)
        try:
            return await waiter
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


class Turn:
    """The turn of one poll to claim."""

    def __init__(self, group: _Group) -> None:
        self._group = group
        group.turns.add(self)
        group.turns_over.clear()

    def end(self, *, found: bool) -> None:
        """Let the others have theirs. `found` says whether there was a job."""
        group = self._group
        group.in_vain |= not found and self in group.turns
        group.turns.discard(self)
        if not group.turns:
            group.turns_over.set()


class _Group:
    """The polls with one filter, first come first."""

    def __init__(self, queue: WorkerQueue, want: Want) -> None:
        self.want = want
        self.hinted = asyncio.Event()
        self.waiters: deque[asyncio.Future[Turn]] = deque()
        self.turns: set[Turn] = set()
        self.turns_over = asyncio.Event()
        self.in_vain = False
        """Whether a poll was woken for nothing."""
        self.task = asyncio.create_task(self._watch(queue, want))

    async def _watch(self, queue: WorkerQueue, want: Want) -> None:
        try:
            while True:
                ready = await first_of(queue.wait(want, _LOOK), self.hinted.wait()) or self.hinted.is_set()
                number = 1
                while ready:
                    self.hinted.clear()
                    self.in_vain = False
                    self._wake(number)
                    await asyncio.sleep(_TURN_SECONDS)
                    await first_of(self.turns_over.wait(), timeout=_CLAIM_SECONDS)
                    self.turns.clear()
                    number = 1 if self.in_vain else number * 2
                    ready = await queue.wait(want, _AT_ONCE)
        except Exception as error:  # noqa: BLE001 (each poll raises it, and its route answers with it)
            while self.waiters:
                waiter = self.waiters.popleft()
                if not waiter.done():
                    waiter.set_exception(error)

    def _wake(self, number: int) -> None:
        while number and self.waiters:
            waiter = self.waiters.popleft()
            if not waiter.done():
                waiter.set_result(Turn(self))
                number -= 1
