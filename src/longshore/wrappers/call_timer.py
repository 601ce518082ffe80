"""A queue whose calls are timed, so that a medium that hangs is noticed.

A medium that refuses a call raises an error, and the worker tries again. A medium that hangs raises nothing: only the
time without an answer tells.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from datetime import timedelta
from itertools import count
from typing import TypeVar

from longshore.clock import Clock
from longshore.extensions.archive import Archives, Month
from longshore.extensions.claim_stats import ClaimStats
from longshore.extensions.find import E, require
from longshore.extensions.payloads import PayloadLookup
from longshore.extensions.presence import PresentWorker, WorkerInfo, WorkerRegistry
from longshore.extensions.rejected import KeepsRejected, RejectedFiles
from longshore.extensions.shared_state import Entries, SharedState, StateEntry
from longshore.extensions.traces import KeepsTraces, TraceKeeper
from longshore.extensions.transfer import Carried, TakesOver
from longshore.job import Attempt, Job, JobName, NewJob
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Settlement
from longshore.queue import Count, Queue, Reaped, Selection, Submitted
from longshore.stored import JsonObject
from longshore.wrappers.queue_wrapper import QueueWrapper

T = TypeVar("T")


class TimedQueue(QueueWrapper):
    """A queue that times every call, those of the extensions included, except `wait` and `close`.

    These two may take long without anything being wrong. An extension may only be used if the traits promise it.
    """

    def __init__(self, queue: Queue, clock: Clock) -> None:
        super().__init__(queue)
        self._clock = clock
        self._numbers = count()
        self._pending: dict[int, float] = {}

    @property
    def silence(self) -> float:
        """The seconds since the oldest call without an answer began; 0 if every call was answered."""
        return self._clock.monotonic() - min(self._pending.values()) if self._pending else 0.0

    async def _timed(self, call: Awaitable[T]) -> T:
        number = next(self._numbers)
        self._pending[number] = self._clock.monotonic()
        try:
            return await call
        finally:
            del self._pending[number]

    def _extension(self, extension: type[E]) -> E:
        return require(self._queue, extension, f"does not offer {extension.__name__}.")

    # The contract

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        return await self._timed(self._queue.submit(jobs))

    async def claim(self, want: Want) -> list[Lease]:
        return await self._timed(self._queue.claim(want))

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        return await self._timed(self._queue.renew(worker, lease))

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._timed(self._queue.settle(settlements))

    async def reap(self) -> Reaped:
        return await self._timed(self._queue.reap())

    async def stats(self, run: str | None = None) -> list[Count]:
        return await self._timed(self._queue.stats(run))

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        return await self._timed(self._queue.jobs(selection, after=after, limit=limit))

    async def history(self, job_id: str) -> list[Attempt]:
        return await self._timed(self._queue.history(job_id))

    async def retry(self, selection: Selection) -> int:
        return await self._timed(self._queue.retry(selection))

    async def cancel(self, selection: Selection) -> int:
        return await self._timed(self._queue.cancel(selection))

    async def release(self, selection: Selection) -> int:
        return await self._timed(self._queue.release(selection))

    async def prune(self, selection: Selection) -> int:
        return await self._timed(self._queue.prune(selection))

    # The extensions

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        return await self._timed(self._extension(WorkerRegistry).register(worker, lease, info))

    async def deregister(self, worker: WorkerId) -> None:
        await self._timed(self._extension(WorkerRegistry).deregister(worker))

    async def present_workers(self) -> list[PresentWorker]:
        return await self._timed(self._extension(WorkerRegistry).present_workers())

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        return await self._timed(self._extension(SharedState).read_entries(namespace, names))

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        return await self._timed(self._extension(SharedState).swap_entries(namespace, entries))

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        return await self._timed(self._extension(TakesOver).take_over(carried))

    async def payloads(self, run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        return await self._timed(self._extension(PayloadLookup).payloads(run, names))

    async def job_ids(self, run: str, names: Sequence[JobName]) -> list[str | None]:
        return await self._timed(self._extension(PayloadLookup).job_ids(run, names))

    async def archive(self, selection: Selection) -> int:
        return await self._timed(self._extension(Archives).archive(selection))

    async def archived(self) -> list[Month]:
        return await self._timed(self._extension(Archives).archived())

    async def forget_history(self) -> None:
        await self._timed(self._extension(Archives).forget_history())

    async def rejected(self, run: str | None = None) -> RejectedFiles:
        return await self._timed(self._extension(KeepsRejected).rejected(run))

    async def claim_success_rate(self) -> float:
        return await self._timed(self._extension(ClaimStats).claim_success_rate())

    async def traces(self) -> TraceKeeper:
        return await self._timed(self._extension(KeepsTraces).traces())
