"""Recording in the processes of a trial: every queue they open is recorded, and can be made to fail.

`sitecustomize` in `recorded/` calls `install` at the start of each process, so the commands of Longshore are the real
ones. Handlers of a trial call `note_entered`, `note_record` and `note_left`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import threading
import time
from collections.abc import Awaitable, Mapping, Sequence
from datetime import timedelta
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar, cast

from tests.chaos import twins
from tests.chaos.switches import (
    FULL_DISK,
    LOST_ANSWERS,
    LOST_CLAIM,
    ODD_ROWS,
    READ_ONLY,
    SLOW_CALLS,
    STALE_LISTING,
    UNREACHABLE,
    MachineClock,
    Switches,
)

import longshore.extensions.submissions
from longshore import media
from longshore.clock import Clock
from longshore.conformance.history import HistoryWriter, RecordingQueue
from longshore.conformance.history.events import (
    HandlerEntered,
    HandlerLeft,
    ProcessStarved,
    RecordGiven,
    RecordsFlushed,
)
from longshore.conformance.history.recording_queue import sorted_json
from longshore.errors import QueueFullError, QueueUnavailableError, ReadOnlyQueueError
from longshore.job import Job, NewJob
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.outcome import Settlement
from longshore.queue import Queue, Reaped, Selection, Submitted
from longshore.wrappers.queue_wrapper import QueueWrapper

FOLDER, ROLE, TWIN, LEASE = "LONGSHORE_TRIAL", "LONGSHORE_TRIAL_ROLE", "LONGSHORE_TRIAL_TWIN", "LONGSHORE_LEASE_SECONDS"
SUBMISSION_SECONDS = 4.0
"""The lease of a submission under way: the end of a trial waits for the submitters that were killed."""
BATCH = 15
"""Jobs in a call of `submit`: then a submission of a trial is several calls."""

T = TypeVar("T")
_ERRORS = {UNREACHABLE: QueueUnavailableError, FULL_DISK: QueueFullError, READ_ONLY: ReadOnlyQueueError}
_writers: dict[int, HistoryWriter] = {}


def install() -> None:
    """Record every queue that this process opens, and let it live by the clock of the trial."""
    MachineClock(_folder() / "clock").install()
    longshore.extensions.submissions.LEASE = timedelta(seconds=SUBMISSION_SECONDS)
    longshore.extensions.submissions._RENEW_SECONDS = SUBMISSION_SECONDS / 4
    plain = media._medium

    def recorded(url: str) -> Any:
        medium = plain(url)
        given = {name: getattr(medium, name) for name in ("exists", "migrate") if hasattr(medium, name)}

        async def open_queue(url: str, clock: Clock) -> Queue:
            _record_the_rest()
            twin = os.environ.get(TWIN, "")
            twins.install(twin)
            queue = twins.wrapped(twin, await medium.open_queue(url, clock), _folder())
            return _RenewalWatch(_Faulty(queue, _switches()), writer(), queue_name(url))

        return SimpleNamespace(open_queue=open_queue, **given)

    media._medium = recorded


def writer() -> HistoryWriter:
    """Return the history of this process. A process is named by its role and id."""
    pid = os.getpid()
    if pid not in _writers:
        role = os.environ.get(ROLE, "other")
        _writers[pid] = HistoryWriter(_folder() / "histories", process_name(role, pid), role)
    return _writers[pid]


def process_name(role: str, pid: int) -> str:
    """Return the name of a process in the histories."""
    return f"{role}-{pid}"


def queue_name(url: str) -> str:
    """Return the name of a queue in the histories: the conductor has given one to each URL."""
    names: Mapping[str, str] = json.loads((_folder() / "queues.json").read_text())
    return names.get(url, url)


def note_entered(job: Job) -> None:
    """Note that a handler begins an attempt."""
    writer().write(HandlerEntered(queue=_own_queue(), id=job.id, epoch=job.epoch))


def note_record(job: Job, data: Mapping[str, object]) -> None:
    """Note that a handler is about to emit a record."""
    writer().write(RecordGiven(queue=_own_queue(), id=job.id, epoch=job.epoch, data=sorted_json(data)))


def note_left(job: Job, how: str) -> None:
    """Note that a handler is about to leave its attempt: `returned`, `raised` or `overstayed`."""
    writer().write(HandlerLeft(queue=_own_queue(), id=job.id, epoch=job.epoch, how=how))


def attempt_of(job: Job) -> tuple[str, str, int]:
    """Return the attempt that a handler runs in, for its result."""
    return _own_queue(), job.id, job.epoch


def reparsing() -> bool:
    """Return whether this process runs handlers again on stored pages."""
    return os.environ.get(ROLE) == "reparser"


def takes_stubborn_jobs() -> bool:
    """Return whether this process is one that leaves at once, or that finishes what is left at the end."""
    return os.environ.get(ROLE) in {"leaver", "finisher"}


def many_odd_rows() -> bool:
    """Return whether many attempts emit a record that some sinks refuse."""
    return _switches().on_for_all(ODD_ROWS)


def _own_queue() -> str:
    return queue_name(os.environ["LONGSHORE_QUEUE"])


def _folder() -> Path:
    return Path(os.environ[FOLDER])


@cache
def _switches() -> Switches:
    return Switches(_folder())


@cache
def _record_the_rest() -> None:
    """Record what else a worker does: flushes of records, and times without a processor."""
    _record_flushes()
    import longshore.runs.submit.batches

    longshore.runs.submit.batches.BATCH = BATCH
    _let_listings_lag()
    threading.Thread(target=_watch_the_processor, daemon=True).start()


def _record_flushes() -> None:
    from longshore.worker.kit.attempt_records import AttemptRecords

    take, keep = AttemptRecords.take, AttemptRecords.keep
    waiting: dict[int, list[tuple[str, int]]] = {}

    def recorded_take(self: AttemptRecords, job: Job, *rest: Any, **named: Any) -> None:
        waiting.setdefault(id(self), []).append((job.id, job.epoch))
        take(self, job, *rest, **named)

    async def recorded_keep(self: AttemptRecords) -> None:
        # Two calls may overlap; each makes everything durable that was taken before it.
        taken = list(waiting.get(id(self), ()))
        await keep(self)
        if taken:
            writer().write(RecordsFlushed(attempts=tuple(taken)))
            waiting[id(self)] = [each for each in waiting[id(self)] if each not in taken]

    AttemptRecords.take = recorded_take  # type: ignore[method-assign]
    AttemptRecords.keep = recorded_keep  # type: ignore[method-assign]


def _let_listings_lag() -> None:
    """List folders as this process saw them last while the switch is on, as a network volume does from its cache."""
    from longshore.media.directory.files import disk

    names, known, switches = disk.names, dict[str, list[str]](), _switches()

    def remembered(path: str) -> list[str]:
        if path not in known or not switches.on(STALE_LISTING):
            known[path] = names(path)
        return list(known[path])

    disk.names = remembered


def _lease_seconds() -> float:
    return float(os.environ.get(LEASE, "300"))


def _watch_the_processor() -> None:
    """Note when this process had no processor for long enough to miss a renewal. The machine may be busy."""
    pause, patience = threading.Event(), _lease_seconds() / 3
    before = time.monotonic()
    while not pause.wait(patience / 4):
        now = time.monotonic()
        if now - before > patience:
            writer().write(ProcessStarved())
        before = now


class _RenewalWatch(RecordingQueue):
    """A recorded queue that also notes renewals that took too long: the medium was busy, and leases may be lost."""

    def __init__(self, queue: Queue, recorder: HistoryWriter, name: str) -> None:
        super().__init__(queue, recorder, name)
        self._renewed = time.monotonic()

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        began = time.monotonic()
        try:
            return await super().renew(worker, lease)
        finally:
            now = time.monotonic()
            if max(now - began, now - self._renewed) > lease.total_seconds() / 2:
                self._recorder.write(ProcessStarved())
            self._renewed = now


class _Faulty(QueueWrapper):
    """A queue whose calls are slow, lost on the way, or lose their answers, as the switches say."""

    def __init__(self, queue: Queue, switches: Switches) -> None:
        super().__init__(queue)
        self._switches = switches

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        return await self._through(self._queue.submit(jobs))

    async def claim(self, want: Want) -> list[Lease]:
        leases = await self._through(self._queue.claim(want))
        if leases and self._switches.on(LOST_CLAIM):
            self._switches.switch(LOST_CLAIM, os.getpid(), on=False)
            raise QueueUnavailableError("The answer to a claim was lost (a fault of the trial).")
        return leases

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        return await self._through(self._queue.renew(worker, lease))

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._through(self._queue.settle(settlements))

    async def reap(self) -> Reaped:
        return await self._through(self._queue.reap())

    async def release(self, selection: Selection) -> int:
        return await self._through(self._queue.release(selection))

    async def _through(self, call: Awaitable[T]) -> T:
        for fault, error in _ERRORS.items():
            if self._switches.on(fault) and random.random() < 0.7:
                cast("Any", call).close()
                raise error(f"The call did not arrive: {fault} (a fault of the trial).")
        if self._switches.on(SLOW_CALLS):
            await asyncio.sleep(random.uniform(0.3, 2) * _lease_seconds())
        answer = await call
        if self._switches.on(LOST_ANSWERS) and random.random() < 0.4:
            raise QueueUnavailableError("The answer was lost (a fault of the trial).")
        return answer
