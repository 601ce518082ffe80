"""The operations on a queue as values: made once per call, and applied to a state as often as needed.

A refused push discards what was applied; the same operations are then applied to the new state, and may give other
answers. So an operation keeps nothing between two applications, and everything that can fail because of the caller's
arguments (such as a payload that JSON cannot represent) fails when the operation is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, ClassVar, Generic, TypeVar

import msgspec

from longshore.errors import CrashedError, Failure, UsageError
from longshore.extensions.presence import WorkerInfo
from longshore.extensions.shared_state import StateEntry
from longshore.extensions.transfer import Carried
from longshore.job import Attempt, NewJob, State, number_of
from longshore.lease import Held, Lease, Want, WorkerId, lease_seconds
from longshore.media.git.state import branch_files as files
from longshore.media.git.state.branch_files import BranchJob, JobPath
from longshore.media.git.state.branch_state import BranchState
from longshore.media.git.state.content_limits import LONGEST_LABEL, ROOM, accepted, bounded, rewritten, storable
from longshore.media.git.state.job_label import label_of
from longshore.media.git.state.repair import NOT_A_JOB
from longshore.media.git.state.selection import selected
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Reaped, Selection, Submitted

T = TypeVar("T")


class Operation(Generic[T]):
    """One call of the contract."""

    verb: ClassVar[str]
    """The operation's name in commit messages."""

    def apply(self, state: BranchState, now: float) -> T:
        """Change the state and return the answer. If there is nothing to do, the state stays unchanged."""
        raise NotImplementedError


class Submit(Operation[Submitted]):
    """Add jobs whose keys are new."""

    verb = "submit"

    def __init__(self, jobs: Sequence[NewJob], now: float) -> None:
        self.jobs = [accepted(BranchJob.of(job, now)) for job in jobs]

    def apply(self, state: BranchState, now: float) -> Submitted:
        del now
        added = sum(state.add(record, content) for record, content in self.jobs)
        return Submitted(added, len(self.jobs) - added)


class TakeOver(Operation[Submitted]):
    """Add jobs of another queue in their states, if their keys are new."""

    verb = "take over"

    def __init__(self, carried: Sequence[Carried]) -> None:
        self.jobs = [(item.job, *accepted(BranchJob.carried(item))) for item in carried]

    def apply(self, state: BranchState, now: float) -> Submitted:
        del now
        added = 0
        for job, record, content in self.jobs:
            folder = files.FINISHED_FOLDERS.get(job.state) or _pending_folder(record)
            added += state.add(record, content, folder, job.epoch)
        return Submitted(added, len(self.jobs) - added)


class Claim(Operation[list[Lease]]):
    """Claim pending jobs for a worker."""

    verb = "claim"

    def __init__(self, want: Want) -> None:
        if len(want.worker.label) > LONGEST_LABEL:
            raise UsageError(f"A worker's label may have {LONGEST_LABEL} characters, not {len(want.worker.label)}")
        self.want = want

    def apply(self, state: BranchState, now: float) -> list[Lease]:
        want, stem = self.want, files.stem_of(self.want.worker)
        seconds = want.lease.total_seconds()
        leases: list[Lease] = []
        while places := state.take(want, want.limit - len(leases), now):
            for place in places:
                record = state.record(place)
                if record is None:
                    state.reject(place, NOT_A_JOB)
                    continue
                label = place.label or label_of(record.kind, record.key, record.payload)
                taken = _replaced(place, label=label, folder=files.ACTIVE, holder=stem, epoch=place.epoch + 1, due=None)
                state.move(place, taken)
                leases.append(Lease(record.job(taken, state.uuid, want.worker.label), want.worker, now + seconds))
        # A claim that found nothing is not worth a push, unless the worker's heartbeat is due.
        if stem in state.jobs.held or state.heartbeats.is_due(stem):
            state.write_heartbeat(want.worker, seconds)
        return leases


class Renew(Operation[list[Held]]):
    """Write a heartbeat for a worker that holds a job or is registered."""

    verb = "renew"

    def __init__(self, worker: WorkerId, lease: timedelta) -> None:
        self.worker = worker
        self._seconds = lease_seconds(lease)

    def apply(self, state: BranchState, now: float) -> list[Held]:
        del now
        stem = files.stem_of(self.worker)
        if stem in state.jobs.held or state.heartbeats.is_registered(stem):
            state.write_heartbeat(self.worker, self._seconds)
        return _held(state, stem)


class Register(Operation[list[Held]]):
    """Write a heartbeat with the worker's info, even if the worker holds no job."""

    verb = "renew"

    def __init__(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> None:
        self.worker = worker
        self._seconds = lease_seconds(lease)
        self._about: dict[str, Any] = _within_limit(info, "The info of a worker")

    def apply(self, state: BranchState, now: float) -> list[Held]:
        del now
        state.write_heartbeat(self.worker, self._seconds, self._about)
        return _held(state, files.stem_of(self.worker))


class Deregister(Operation[None]):
    """Remove a worker from the registry."""

    verb = "sign out"

    def __init__(self, worker: WorkerId) -> None:
        self.worker = worker

    def apply(self, state: BranchState, now: float) -> None:
        del now
        state.deregister(self.worker)


class Settle(Operation[list[bool]]):
    """Write the outcomes whose leases are still held."""

    verb = "settle"

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self.settlements = [
            (settlement, _storable(settlement.outcome), _follow_on(settlement.outcome)) for settlement in settlements
        ]

    def apply(self, state: BranchState, now: float) -> list[bool]:
        return [self._settle(state, *each, now) for each in self.settlements]

    def _settle(
        self, state: BranchState, settlement: Settlement, outcome: Outcome, jobs: Sequence[BranchJob], now: float
    ) -> bool:
        lease = settlement.lease
        place = state.jobs.active.get(number_of(lease.job.id))
        if place is None or (place.epoch, place.holder) != (lease.epoch, files.stem_of(lease.worker)):
            return False
        record = state.record(place)
        if record is None:
            return False
        record.worker = state.holder(place)
        match outcome:
            case Completed():
                record.attempts += 1
                record.settled_at, record.seconds = now, settlement.seconds
                record.result, record.failure = outcome.result, None
                record.came_from = settlement.came_from or record.came_from
                record.handler_version = settlement.handler_version
                _finish(state, place, record, State.COMPLETED)
                for job in jobs:
                    state.add(*accepted(job.with_parent(record, now)))
            case Failed():
                _fail(state, place, record, outcome, now, settlement.seconds)
            case Snoozed():
                _give_back(state, place, record, outcome.delay, now)
            case Released():
                _give_back(state, place, record, timedelta(0), now)
        return True


class Reap(Operation[Reaped]):
    """Return the jobs of silent workers to the queue."""

    verb = "reap"

    def apply(self, state: BranchState, now: float) -> Reaped:
        returned = failed = 0
        silent = state.silent()
        # The heartbeat of a silent worker that holds nothing and is not registered is harmless: not worth a push.
        held = state.jobs.held
        if not any(stem in held or state.heartbeats.is_registered(stem) for stem in silent) and len(silent) < 50:
            return Reaped()
        for stem in silent:
            for place in list(state.jobs.held.get(stem, {}).values()):
                record = state.record(place)
                if record is None:
                    state.reject(place, NOT_A_JOB)
                    continue
                record.worker = state.holder(place)
                crash = CrashedError(f"worker {record.worker} went silent and its lease expired")
                with _reject_if_unfit(state, place):
                    ended = _fail(state, place, record, Failed(Failure.of(crash)), now, None)
                    failed += ended is State.FAILED
                    returned += ended is State.PENDING
            state.remove_heartbeat(stem)
        return Reaped(returned, failed)


class Retry(Operation[int]):
    """Make failed and cancelled jobs pending again, with their attempts reset."""

    verb = "retry"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, state: BranchState, now: float) -> int:
        states = frozenset({State.FAILED, State.CANCELLED})
        retried = 0
        for place, record in list(selected(state, self._selection, now, states=states)):
            record.attempts, record.not_before, record.settled_at = 0, None, None
            record.worker = record.seconds = None
            with _reject_if_unfit(state, place):
                state.move(place, _replaced(place, folder=_pending_folder(record), due=None), rewritten(record))
                retried += 1
        return retried


class Cancel(Operation[int]):
    """Cancel pending and claimed jobs."""

    verb = "cancel"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, state: BranchState, now: float) -> int:
        states = frozenset({State.PENDING, State.CLAIMED})
        cancelled = 0
        for place, record in list(selected(state, self._selection, now, states=states)):
            if place.state is State.CLAIMED:
                record.worker = state.holder(place)
            record.not_before, record.settled_at = None, now
            with _reject_if_unfit(state, place):
                _finish(state, place, record, State.CANCELLED)
                cancelled += 1
        return cancelled


class Release(Operation[int]):
    """Make claimed jobs pending; no attempt counts."""

    verb = "release"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, state: BranchState, now: float) -> int:
        released = 0
        for place, record in list(selected(state, self._selection, now, states=frozenset({State.CLAIMED}))):
            with _reject_if_unfit(state, place):
                _give_back(state, place, record, timedelta(0), now)
                released += 1
        return released


class Prune(Operation[int]):
    """Remove finished jobs."""

    verb = "prune"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, state: BranchState, now: float) -> int:
        states = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
        chosen = list(selected(state, self._selection, now, states=states))
        for place, _ in chosen:
            state.move(place, None)
        return len(chosen)


class Archive(Operation[int]):
    """Move completed jobs into the archive."""

    verb = "archive"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, state: BranchState, now: float) -> int:
        found = selected(state, self._selection, now, states=frozenset({State.COMPLETED}))
        chosen = [(place, record) for place, record in found if not place.is_archived]
        if chosen:
            state.pack(chosen)
        return len(chosen)


class SwapEntries(Operation[list[str | None]]):
    """Write the entries of the shared state whose versions are the current ones."""

    verb = "note"

    def __init__(self, namespace: str, entries: Sequence[StateEntry]) -> None:
        self.namespace = namespace
        self._entries = [
            msgspec.structs.replace(entry, value=_within_limit(entry.value, "A shared entry")) for entry in entries
        ]

    def apply(self, state: BranchState, now: float) -> list[str | None]:
        del now
        return [state.swap_entry(self.namespace, entry) for entry in self._entries]


def _within_limit(value: Any, what: str) -> Any:
    """Return a value as it will be read back. Raises `UsageError` if it cannot be stored or is too large."""
    encoded = bytes(storable(value, what))
    if len(encoded) > ROOM:
        raise UsageError(f"{what} may have {ROOM} bytes, not {len(encoded)}")
    return msgspec.json.decode(encoded)


def _held(state: BranchState, stem: str) -> list[Held]:
    return [Held(str(place.number), place.epoch) for place in state.jobs.held.get(stem, {}).values()]


@contextmanager
def _reject_if_unfit(state: BranchState, place: JobPath) -> Iterator[None]:
    """Reject a job that cannot be rewritten, so that the others are processed; only a foreign job can be too large."""
    try:
        yield
    except UsageError as error:
        state.reject(place, str(error))


def _fail(
    state: BranchState, place: JobPath, record: BranchJob, outcome: Failed, now: float, seconds: float | None
) -> State:
    entry = Attempt(
        epoch=place.epoch, worker=record.worker or "", ended_at=now, failure=outcome.failure, seconds=seconds
    )
    record.history = [*record.history, entry]
    record.attempts += 1
    record.max_attempts = outcome.max_attempts or record.max_attempts
    record.failure = outcome.failure
    if outcome.failure.retryable and record.attempts < record.max_attempts:
        _give_back(state, place, record, outcome.retry_in, now)
        return State.PENDING
    record.settled_at, record.seconds = now, seconds
    _finish(state, place, record, State.FAILED)
    return State.FAILED


def _give_back(state: BranchState, place: JobPath, record: BranchJob, delay: timedelta, now: float) -> None:
    record.worker = None
    record.not_before = now + delay.total_seconds() if delay else None
    back = _replaced(place, folder=_pending_folder(record), holder="", due=files.due_of(record.not_before))
    state.move(place, back, rewritten(record))


def _finish(state: BranchState, place: JobPath, record: BranchJob, end: State) -> None:
    record.not_before = None
    done = _replaced(place, folder=files.FINISHED_FOLDERS[end], holder="", due=None)
    state.move(place, done, rewritten(record))


def _pending_folder(record: BranchJob) -> str:
    return files.RETRY if record.failure is not None else files.AVAILABLE


def _replaced(place: JobPath, **changes: Any) -> JobPath:
    return msgspec.structs.replace(place, **changes)


def _storable(outcome: Outcome) -> Outcome:
    """Return the outcome encoded, so that later changes of the caller's objects have no effect."""
    match outcome:
        case Completed():
            return Completed(storable(outcome.result, "A result"))
        case Failed():
            return msgspec.structs.replace(outcome, failure=bounded(outcome.failure))
        case _:
            return outcome


def _follow_on(outcome: Outcome) -> list[BranchJob]:
    """Return the follow-on jobs of an outcome, still without their parent."""
    return [accepted(BranchJob.of(job, 0.0))[0] for job in outcome.jobs] if isinstance(outcome, Completed) else []
