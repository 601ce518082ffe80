"""The queue contract in its simplest form. No method awaits between reading and writing, so each one is atomic."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Sequence
from datetime import timedelta
from itertools import count, groupby
from typing import Any
from uuid import uuid4

import msgspec

from longshore.clock import Clock, SystemClock
from longshore.errors import CrashedError, Failure
from longshore.extensions.presence import PresentWorker, WorkerInfo, worker_info
from longshore.extensions.shared_state import ABSENT, Entries, StateEntry
from longshore.extensions.transfer import Carried
from longshore.job import FINISHED, Attempt, Job, JobName, NewJob, State
from longshore.lease import Held, Lease, Want, WorkerId, lease_seconds
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Count, Reaped, Selection, Submitted, Traits, page_start
from longshore.stored import JsonObject, check_texts, encode
from longshore.system.first_of import first_of


class MemoryQueue:
    """A queue in memory; `longshore.queue.Queue` documents the methods."""

    traits = Traits(
        name="memory",
        spans_processes=False,
        spans_machines=False,
        wakes=True,
        takes_over=True,
        tracks_presence=True,
        shares_state=True,
        finds_payloads=True,
        quick_shared_state=True,
        one_clock=True,
    )

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._uuid = uuid4().hex
        self._numbers = count(1)
        self._jobs: dict[str, Job] = {}
        self._ids: dict[tuple[str, str, str], str] = {}
        self._holders: dict[str, WorkerId] = {}
        self._deadlines: dict[WorkerId, float] = {}
        """By the monotonic clock, which no one sets."""
        self._info: dict[WorkerId, WorkerInfo] = {}
        self._history: defaultdict[str, list[Attempt]] = defaultdict(list)
        self._waiters: set[asyncio.Future[None]] = set()
        self._entries: dict[tuple[str, str], StateEntry] = {}
        self._versions = count(1)
        self._turns: dict[str, int] = {}
        """The last turn of each host, as a number that counts all turns."""
        self._turn = count(1)

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        # Encode all jobs before adding any: a batch that cannot be stored must change nothing.
        storable = [_stored(job) for job in jobs]
        new = sum(self._add(job) for job in storable)
        return Submitted(new, len(storable) - new)

    async def claim(self, want: Want) -> list[Lease]:
        now = self._clock.now()
        claimable = (
            job
            for job in self._jobs.values()
            if self._wanted(want, job) and (job.not_before is None or job.not_before <= now)
        )
        chosen = self._in_turn(sorted(claimable, key=lambda job: (job.priority, int(job.id))), want.limit)
        deadline = now + want.lease.total_seconds()
        self._extend_leases(want.worker, want.lease)
        leases = []
        for job in chosen:
            claimed = self._put(
                job, state=State.CLAIMED, epoch=job.epoch + 1, worker=want.worker.label, not_before=None
            )
            self._holders[job.id] = want.worker
            # A copy: if a handler changes its payload, the next attempt must not see that.
            copy = msgspec.structs.replace(claimed, payload=msgspec.json.decode(msgspec.json.encode(claimed.payload)))
            leases.append(Lease(copy, want.worker, deadline))
        return leases

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        self._extend_leases(worker, lease)
        return [Held(job_id, self._jobs[job_id].epoch) for job_id, holder in self._holders.items() if holder == worker]

    def _extend_leases(self, worker: WorkerId, lease: timedelta) -> None:
        self._deadlines[worker] = self._clock.monotonic() + lease_seconds(lease)

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        published = worker_info(_through_json(info, "The info of a worker"))
        held = await self.renew(worker, lease)
        self._info[worker] = published
        return held

    async def deregister(self, worker: WorkerId) -> None:
        self._info.pop(worker, None)

    async def present_workers(self) -> list[PresentWorker]:
        now = self._clock.monotonic()
        here = [worker for worker in self._info if self._deadlines.get(worker, now) >= now]
        return [
            PresentWorker(worker, self._info[worker]) for worker in sorted(here, key=lambda w: (w.label, w.incarnation))
        ]

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        storable = [(settlement, _storable(settlement.outcome)) for settlement in settlements]
        return [self._settle(settlement, outcome) for settlement, outcome in storable]

    async def reap(self) -> Reaped:
        now = self._clock.monotonic()
        dead = {worker for worker, deadline in self._deadlines.items() if deadline < now}
        returned = failed = 0
        for job_id, holder in list(self._holders.items()):
            if holder not in dead:
                continue
            failure = Failure.of(CrashedError(f"worker {holder.label} went silent and its lease expired"))
            if self._fail(self._jobs[job_id], Failed(failure), seconds=None).state is State.FAILED:
                failed += 1
            else:
                returned += 1
        for worker in dead:
            del self._deadlines[worker]
            self._info.pop(worker, None)
        return Reaped(returned, failed)

    async def stats(self, run: str | None = None) -> list[Count]:
        check_texts((run or "",), "The run")
        numbers: defaultdict[tuple[str, str, str], dict[str, int]] = defaultdict(lambda: dict.fromkeys(State, 0))
        for job in self._jobs.values():
            if run is None or job.run == run:
                numbers[job.run, job.kind, job.partition][job.state] += 1
        return [
            Count(run=lane_run, kind=kind, partition=partition, **numbers[lane_run, kind, partition])
            for lane_run, kind, partition in sorted(numbers)
        ]

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        return self._select(selection, after=page_start(after, limit))[:limit]

    async def payloads(self, run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")
        ids = (self._ids.get((run, name.kind, name.key)) for name in names)
        return [None if each is None else _through_json(self._jobs[each].payload, "A payload") for each in ids]

    async def job_ids(self, run: str, names: Sequence[JobName]) -> list[str | None]:
        check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")
        return [self._ids.get((run, name.kind, name.key)) for name in names]

    async def history(self, job_id: str) -> list[Attempt]:
        return list(self._history.get(job_id, ()))

    async def retry(self, selection: Selection) -> int:
        chosen = [job for job in self._select(selection) if job.state in {State.FAILED, State.CANCELLED}]
        for job in chosen:
            self._put(
                job,
                state=State.PENDING,
                attempts=0,
                not_before=None,
                settled_at=None,
                worker=None,
                seconds=None,
            )
        return len(chosen)

    async def cancel(self, selection: Selection) -> int:
        chosen = [job for job in self._select(selection) if job.state in {State.PENDING, State.CLAIMED}]
        for job in chosen:
            self._holders.pop(job.id, None)
            self._put(job, state=State.CANCELLED, not_before=None, settled_at=self._clock.now())
        return len(chosen)

    async def release(self, selection: Selection) -> int:
        chosen = [job for job in self._select(selection) if job.state is State.CLAIMED]
        for job in chosen:
            del self._holders[job.id]
            self._give_back(job, timedelta(0))
        return len(chosen)

    async def prune(self, selection: Selection) -> int:
        chosen = [job for job in self._select(selection) if job.state in FINISHED]
        for job in chosen:
            del self._jobs[job.id]
            del self._ids[job.run, job.kind, job.key]
            self._history.pop(job.id, None)
        return len(chosen)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        until = self._clock.monotonic() + timeout.total_seconds()
        while True:
            now = self._clock.now()
            due = [job.not_before or now for job in self._jobs.values() if self._wanted(want, job)]
            if due and min(due) <= now:
                return True
            left = until - self._clock.monotonic()
            if left <= 0:
                return False
            await self._sleep(min([left, *(instant - now for instant in due)]))

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        storable = [_carried(item) for item in carried]
        new = 0
        for job, history in storable:
            job_id = self._new_id(job)
            if job_id is not None:
                new += 1
                self._history[job_id] = history
                self._put(msgspec.structs.replace(job, id=job_id, queue=self._uuid))
        return Submitted(new, len(storable) - new)

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        check_texts((namespace, *(names or ())), "The name of a shared entry")
        there = [
            entry for (on, name), entry in self._entries.items() if on == namespace and (names is None or name in names)
        ]
        return Entries(self._clock.now(), tuple(sorted(there, key=lambda entry: entry.name)))

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        check_texts((namespace,), "The name of a shared entry")
        ready = [
            msgspec.structs.replace(entry, value=_through_json(entry.value, "A shared entry")) for entry in entries
        ]
        return [self._swap(namespace, entry) for entry in ready]

    async def close(self) -> None:
        return None

    def _swap(self, namespace: str, entry: StateEntry) -> str | None:
        stored = self._entries.get((namespace, entry.name))
        if entry.version != (ABSENT if stored is None else stored.version):
            return None
        if entry.value is None:
            self._entries.pop((namespace, entry.name), None)
            return ABSENT
        version = str(next(self._versions))
        self._entries[namespace, entry.name] = msgspec.structs.replace(entry, version=version)
        return version

    @staticmethod
    def _wanted(want: Want, job: Job) -> bool:
        return (
            job.state is State.PENDING
            and want.matches(job.run, job.kind, job.partition)
            and job.host not in want.without_hosts
        )

    def _in_turn(self, ordered: Sequence[Job], limit: int) -> list[Job]:
        """Return the first `limit` of these jobs: the most urgent first; within a priority, hosts take turns."""
        chosen: list[Job] = []
        for _, same_priority in groupby(ordered, key=lambda job: job.priority):
            by_host: defaultdict[str, deque[Job]] = defaultdict(deque)
            for job in same_priority:
                by_host[job.host].append(job)
            while by_host and len(chosen) < limit:
                host = min(by_host, key=lambda host: self._turns.get(host, 0))
                self._turns[host] = next(self._turn)
                chosen.append(by_host[host].popleft())
                if not by_host[host]:
                    del by_host[host]
        return chosen

    def _new_id(self, job: NewJob | Job) -> str | None:
        """Return a new id for a job; None if a job of its name is known."""
        known = (job.run, job.kind, job.key)
        if known in self._ids:
            return None
        self._ids[known] = str(next(self._numbers))
        return self._ids[known]

    def _add(self, job: NewJob, *, parent: Job | None = None) -> bool:
        job_id = self._new_id(job)
        if job_id is None:
            return False
        self._jobs[job_id] = Job(
            id=job_id,
            run=job.run,
            kind=job.kind,
            key=job.key,
            payload=job.payload,
            priority=job.priority,
            partition=job.partition,
            host=job.host,
            parent=None if parent is None else JobName(parent.kind, parent.key),
            depth=0 if parent is None else parent.depth + 1,
            max_attempts=job.max_attempts,
            not_before=job.not_before,
            submitted_at=self._clock.now(),
            queue=self._uuid,
        )
        self._wake()
        return True

    def _settle(self, settlement: Settlement, outcome: Outcome) -> bool:
        lease = settlement.lease
        job = self._jobs.get(lease.job.id)
        if job is None or job.epoch != lease.epoch or self._holders.get(job.id) != lease.worker:
            return False
        match outcome:
            case Completed():
                done = {
                    "attempts": job.attempt,
                    "settled_at": self._clock.now(),
                    "seconds": settlement.seconds,
                    "came_from": settlement.came_from or job.came_from,
                    "handler_version": settlement.handler_version,
                }
                self._put(job, state=State.COMPLETED, result=outcome.result, failure=None, **done)
                for follow_on in outcome.jobs:
                    self._add(msgspec.structs.replace(follow_on, run=job.run), parent=job)
            case Failed():
                self._fail(job, outcome, settlement.seconds)
            case Snoozed():
                self._give_back(job, outcome.delay)
            case Released():
                self._give_back(job, timedelta(0))
        self._holders.pop(job.id, None)
        return True

    def _fail(self, job: Job, outcome: Failed, seconds: float | None) -> Job:
        now = self._clock.now()
        limit = outcome.max_attempts or job.max_attempts
        entry = Attempt(
            epoch=job.epoch, worker=job.worker or "", ended_at=now, failure=outcome.failure, seconds=seconds
        )
        self._history[job.id].append(entry)
        self._holders.pop(job.id, None)
        job = self._put(job, attempts=job.attempt, max_attempts=limit, failure=outcome.failure)
        if outcome.failure.retryable and job.attempts < limit:
            return self._give_back(job, outcome.retry_in)
        return self._put(job, state=State.FAILED, settled_at=now, seconds=seconds)

    def _give_back(self, job: Job, delay: timedelta) -> Job:
        not_before = self._clock.now() + delay.total_seconds() if delay else None
        self._wake()
        return self._put(job, state=State.PENDING, not_before=not_before, worker=None)

    def _put(self, job: Job, **changes: Any) -> Job:
        changed = msgspec.structs.replace(job, **changes)
        self._jobs[job.id] = changed
        if changed.state is State.PENDING:
            self._wake()
        return changed

    def _select(self, selection: Selection, *, after: int = 0) -> list[Job]:
        now = self._clock.now()
        return [job for job in self._jobs.values() if int(job.id) > after and selection.matches(job, now)]

    def _wake(self) -> None:
        while self._waiters:
            waiter = self._waiters.pop()
            if not waiter.done():
                waiter.set_result(None)

    async def _sleep(self, seconds: float) -> None:
        """Sleep until a job may have become claimable, at most `seconds` seconds of the clock."""
        # One future per waiter: a shared event could be cleared by one waiter before another begins to wait.
        change: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(change)
        try:
            await first_of(change, self._clock.sleep(seconds))
        finally:
            self._waiters.discard(change)


def _through_json(value: Any, what: str) -> Any:
    """Return the value as every other medium would return it. Raises if no medium can store it."""
    return msgspec.json.decode(encode(value, what))


def _stored(job: NewJob) -> NewJob:
    return msgspec.structs.replace(job, payload=_through_json(job.payload, "A job's payload"))


def _carried(carried: Carried) -> tuple[Job, list[Attempt]]:
    """Return a transferred job and its history; a claimed job becomes pending."""
    job = carried.job
    changes = {
        "payload": _through_json(job.payload, "A job's payload"),
        "result": _through_json(job.result, "A result"),
        "came_from": carried.came_from,
    }
    for failure in (job.failure, *(attempt.failure for attempt in carried.history)):
        encode(failure, "A failure")
    if job.state is State.CLAIMED:
        changes |= {"state": State.PENDING, "worker": None, "not_before": None}
    return msgspec.structs.replace(job, **changes), list(carried.history)


def _storable(outcome: Outcome) -> Outcome:
    if isinstance(outcome, Failed):
        encode(outcome.failure, "A failure")
    if not isinstance(outcome, Completed):
        return outcome
    return Completed(_through_json(outcome.result, "A result"), tuple(_stored(job) for job in outcome.jobs))
