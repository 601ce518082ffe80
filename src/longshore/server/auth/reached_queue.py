"""The part of a queue that a key reaches, as a queue to look at and to change for a person."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import timedelta

import msgspec

from longshore.errors import NotFoundError
from longshore.extensions.find import require
from longshore.extensions.presence import PresentWorker, WorkerInfo, WorkerRegistry
from longshore.job import Attempt, Job, NewJob
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Settlement
from longshore.queue import Count, Queue, Reaped, Selection, Submitted
from longshore.server.auth.access import Access

_NO_PRESENCE = "does not know which workers are alive."


class ReachedQueue:
    """A queue with only the runs and kinds that a key is limited to. It neither claims nor settles."""

    def __init__(self, queue: Queue, access: Access) -> None:
        self._queue = queue
        self._access = access
        self._runs: tuple[str | None, ...] = (None,) if access.key.runs is None else tuple(sorted(access.key.runs))
        self._kinds = None if access.key.kinds is None else frozenset(access.key.kinds)
        self.traits = queue.traits

    def unwrap(self) -> Queue:
        """Return the whole queue."""
        return self._queue

    async def stats(self, run: str | None = None) -> list[Count]:
        """See `Queue`."""
        return [count for count in await self._queue.stats(run) if self._access.reaches(count)]

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        """See `Queue`. The runs come one after another, each oldest first."""
        parts = self._parts(selection)
        if after and len(parts) > 1:
            last = await self._queue.jobs(Selection(ids=frozenset({after})), limit=1)
            began = last[0].run if last else ""
            parts = [part for part in parts if (part.run or "") >= began]
        found: list[Job] = []
        for part in parts:
            begin = after if part is parts[0] else ""
            found += await self._queue.jobs(part, after=begin, limit=limit - len(found))
            if len(found) >= limit:
                break
        return found

    async def history(self, job_id: str) -> list[Attempt]:
        """See `Queue`."""
        reached = await self.jobs(Selection(ids=frozenset({job_id})), limit=1)
        return await self._queue.history(job_id) if reached else []

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        """See `Queue`."""
        self._access.check_new(jobs)
        return await self._queue.submit(jobs)

    async def retry(self, selection: Selection) -> int:
        """See `Queue`."""
        return await self._changed(self._queue.retry, selection)

    async def cancel(self, selection: Selection) -> int:
        """See `Queue`."""
        return await self._changed(self._queue.cancel, selection)

    async def release(self, selection: Selection) -> int:
        """See `Queue`."""
        return await self._changed(self._queue.release, selection)

    async def prune(self, selection: Selection) -> int:
        """See `Queue`."""
        return await self._changed(self._queue.prune, selection)

    async def present_workers(self) -> list[PresentWorker]:
        """Return the workers that may work on a run within reach."""
        present = await require(self._queue, WorkerRegistry, _NO_PRESENCE).present_workers()
        runs = (None, msgspec.UNSET, "", *self._runs)
        return [each for each in present if self._runs == (None,) or each.info.working_on in runs]

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        """Refuse: a person is no worker."""
        del worker, lease, info
        raise _not_for_people()

    async def deregister(self, worker: WorkerId) -> None:
        """Refuse: a person is no worker."""
        del worker
        raise _not_for_people()

    async def claim(self, want: Want) -> list[Lease]:
        """Refuse: a person is no worker."""
        del want
        raise _not_for_people()

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        """Refuse: a person is no worker."""
        del worker, lease
        raise _not_for_people()

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Refuse: a person is no worker."""
        del settlements
        raise _not_for_people()

    async def reap(self) -> Reaped:
        """Refuse: a person is no worker."""
        raise _not_for_people()

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        """Refuse: a person is no worker."""
        del want, timeout
        raise _not_for_people()

    async def close(self) -> None:
        """Do nothing: the server closes its queue."""

    def _parts(self, selection: Selection) -> list[Selection]:
        """Return the selection within each run that is reached."""
        kinds = selection.kinds
        if self._kinds is not None:
            kinds = self._kinds if kinds is None else kinds & self._kinds
        if kinds is not None and not kinds:
            return []
        runs = self._runs if selection.run is None else (selection.run,)
        return [
            msgspec.structs.replace(selection, run=run, kinds=kinds)
            for run in runs
            if self._runs == (None,) or run in self._runs
        ]

    async def _changed(self, operation: Callable[[Selection], Awaitable[int]], selection: Selection) -> int:
        return sum([await operation(part) for part in self._parts(selection)])


def reached(queue: Queue, access: Access) -> Queue:
    """Return the queue as far as a key reaches: the queue itself, if the key is not limited."""
    return queue if access.key.runs is None and access.key.kinds is None else ReachedQueue(queue, access)


def _not_for_people() -> NotFoundError:
    return NotFoundError("Only workers can do this, with a key of the scope 'work'.")
