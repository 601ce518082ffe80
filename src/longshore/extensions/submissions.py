"""Submissions under way: a run is not finished while a process still adds jobs to it.

A submission that takes more than one batch registers in the worker registry, with the run it adds jobs to, and renews
that entry until it ends. So the rules of presence hold for it: the clock that judges leases also judges whether a
submitter is alive, and a submitter that died is gone after `LEASE`. A submission of one batch is one call of `submit`,
which is all or nothing: it registers nowhere.

To learn whether a run is finished, ask `being_submitted` first and read the counts afterwards. In the other order, the
last batch may arrive between the two.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from datetime import timedelta
from types import TracebackType
from typing import Self

from longshore.clock import Clock
from longshore.errors import QueueError
from longshore.extensions.find import find
from longshore.extensions.presence import PresentWorker, WorkerInfo, WorkerRegistry
from longshore.lease import WorkerId
from longshore.queue import Queue

LEASE = timedelta(seconds=90)
"""A submitter that has not renewed for this long is dead."""
_RENEW_SECONDS = 25.0


class SubmissionNotice:
    """Tells everything that shares the queue that a submission to a run is under way, from `begin` to the end.

    It does nothing on a queue without a worker registry.
    """

    def __init__(self, queue: Queue, run: str, clock: Clock) -> None:
        self._registry = find(queue, WorkerRegistry)
        self._info = WorkerInfo(submitting=run)
        self._clock = clock
        self._submitter = WorkerId.new("submission")
        self._renewal: asyncio.Task[None] | None = None

    @property
    def incarnation(self) -> str:
        """The incarnation under which it is registered."""
        return self._submitter.incarnation

    async def begin(self) -> None:
        """Register the submission. Calling it again does nothing."""
        if self._registry is not None and self._renewal is None:
            await self._registry.register(self._submitter, LEASE, self._info)
            self._renewal = asyncio.create_task(self._renew(self._registry))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._registry is None or self._renewal is None:
            return
        self._renewal.cancel()
        await asyncio.gather(self._renewal, return_exceptions=True)
        # If the queue does not answer, the entry ends with its lease.
        with suppress(QueueError):
            await self._registry.deregister(self._submitter)

    async def _renew(self, registry: WorkerRegistry) -> None:
        while True:
            await self._clock.sleep(_RENEW_SECONDS)
            # The submission itself reports a queue that does not answer.
            with suppress(QueueError):
                await registry.register(self._submitter, LEASE, self._info)


async def being_submitted(queue: Queue, run: str | None) -> bool:
    """Return whether a process is adding jobs to `run`; to any run if it is None."""
    registry = find(queue, WorkerRegistry)
    return registry is not None and bool(submissions_among(await registry.present_workers(), run))


def submissions_among(present: Iterable[PresentWorker], run: str | None) -> int:
    """Return how many entries of the registry are submissions to `run`; to any run if it is None."""
    return len(submissions_to(present, run))


def submissions_to(present: Iterable[PresentWorker], run: str | None) -> list[PresentWorker]:
    """Return the entries of the registry that are submissions to `run`; to any run if it is None."""
    return [each for each in present if each.info.submitting is not None and run in (None, each.info.submitting)]


def workers_among(present: Iterable[PresentWorker]) -> list[PresentWorker]:
    """Return the entries of the registry that are workers, without those of submissions."""
    return [each for each in present if each.info.submitting is None]
