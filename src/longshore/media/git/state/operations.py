"""What can be done to a queue, as values: made once from a call, and applied to a ledger as often as it takes.

A push that is refused throws away what was applied; the same operations are then applied to what is there now, and may
come to other answers. So nothing here remembers anything between two applications, and whatever could fail because of
what the caller gave (a payload JSON cannot say) fails when the operation is made.
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
from longshore.media.git.state.selection import selected
from longshore.media.git.state.storable import LONGEST_LABEL, ROOM, accepted, bounded, rewritten, storable
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Reaped, Selection, Submitted

T = TypeVar("T")


class Operation(Generic[T]):
    """One call of the contract."""

    verb: ClassVar[str]
    """What it is called in a commit's message."""

    def apply(self, ledger: BranchState, now: float) -> T:
        """Do it, and answer. Where nothing is to be done the ledger stays as it is."""
        raise NotImplementedError


class Submit(Operation[Submitted]):
    """Add jobs that are not known yet."""

    verb = "submit"

    def __init__(self, jobs: Sequence[NewJob], now: float) -> None:
        self._jobs = [accepted(BranchJob.of(job, now)) for job in jobs]

    def apply(self, ledger: BranchState, now: float) -> Submitted:
        del now
        added = sum(ledger.add(record, content) for record, content in self._jobs)
        return Submitted(added, len(self._jobs) - added)


class TakeOver(Operation[Submitted]):
    """Add jobs of another queue as they are, where they are not known yet."""

    verb = "take over"

    def __init__(self, carried: Sequence[Carried]) -> None:
        self._jobs = [(item.job, *accepted(BranchJob.carried(item))) for item in carried]

    def apply(self, ledger: BranchState, now: float) -> Submitted:
        del now
        added = 0
        for job, record, content in self._jobs:
            folder = files.FINISHED_FOLDERS.get(job.state) or _waiting_room(record)
            added += ledger.add(record, content, folder, job.epoch)
        return Submitted(added, len(self._jobs) - added)


class Claim(Operation[list[Lease]]):
    """Move pending jobs into a worker's hands."""

    verb = "claim"

    def __init__(self, want: Want) -> None:
        if len(want.worker.label) > LONGEST_LABEL:
            raise UsageError(f"A worker's label may have {LONGEST_LABEL} characters, not {len(want.worker.label)}")
        self._want = want

    def apply(self, ledger: BranchState, now: float) -> list[Lease]:
        want, stem = self._want, files.stem_of(self._want.worker)
        seconds = want.lease.total_seconds()
        leases: list[Lease] = []
        while places := ledger.take(want, want.limit - len(leases), now):
            for place in places:
                record = ledger.record(place)
                if record is None:
                    ledger.set_aside(place)
                    continue
                taken = _replaced(place, folder=files.ACTIVE, holder=stem, epoch=place.epoch + 1, due=None)
                ledger.move(place, taken)
                leases.append(Lease(record.job(taken, want.worker.label), want.worker, now + seconds))
        # One that holds nothing shows itself only when it is time to: looking in vain is not worth a push.
        if stem in ledger.held or ledger.heartbeats.is_due(stem):
            ledger.keep_alive(want.worker, seconds)
        return leases


class Renew(Operation[list[Held]]):
    """Write a heartbeat for a worker that holds something, or is on the roll."""

    verb = "renew"

    def __init__(self, worker: WorkerId, lease: timedelta) -> None:
        self._worker = worker
        self._seconds = lease_seconds(lease)

    def apply(self, ledger: BranchState, now: float) -> list[Held]:
        del now
        stem = files.stem_of(self._worker)
        if stem in ledger.held or ledger.heartbeats.on_roll(stem):
            ledger.keep_alive(self._worker, self._seconds)
        return _held(ledger, stem)


class SignIn(Operation[list[Held]]):
    """Write a heartbeat with the worker's words, whatever it holds."""

    verb = "renew"

    def __init__(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> None:
        self._worker = worker
        self._seconds = lease_seconds(lease)
        self._about: dict[str, Any] = _small(info, "The info of a worker")

    def apply(self, ledger: BranchState, now: float) -> list[Held]:
        del now
        ledger.keep_alive(self._worker, self._seconds, self._about)
        return _held(ledger, files.stem_of(self._worker))


class SignOut(Operation[None]):
    """Take a worker off the roll."""

    verb = "sign out"

    def __init__(self, worker: WorkerId) -> None:
        self._worker = worker

    def apply(self, ledger: BranchState, now: float) -> None:
        del now
        ledger.sign_out(self._worker)


class Settle(Operation[list[bool]]):
    """Write outcomes, each where its lease still holds."""

    verb = "settle"

    def __init__(self, settlements: Sequence[Settlement]) -> None:
        self._settlements = [
            (settlement, _storable(settlement.outcome), _follow_on(settlement.outcome)) for settlement in settlements
        ]

    def apply(self, ledger: BranchState, now: float) -> list[bool]:
        return [self._settle(ledger, *each, now) for each in self._settlements]

    def _settle(
        self, ledger: BranchState, settlement: Settlement, outcome: Outcome, jobs: Sequence[BranchJob], now: float
    ) -> bool:
        lease = settlement.lease
        place = ledger.active.get(number_of(lease.job.id))
        if place is None or place.epoch != lease.epoch:
            return False
        record = ledger.record(place)
        if record is None:
            return False
        record.worker = ledger.holder(place)
        match outcome:
            case Completed():
                record.attempts += 1
                record.settled_at, record.seconds = now, settlement.seconds
                record.result, record.failure = outcome.result, None
                _finish(ledger, place, record, State.COMPLETED)
                for job in jobs:
                    ledger.add(*accepted(job.born_of(record, now)))
            case Failed():
                _fail(ledger, place, record, outcome, now, settlement.seconds)
            case Snoozed():
                _give_back(ledger, place, record, outcome.delay, now)
            case Released():
                _give_back(ledger, place, record, timedelta(0), now)
        return True


class Reap(Operation[Reaped]):
    """Bring back what silent workers hold."""

    verb = "reap"

    def apply(self, ledger: BranchState, now: float) -> Reaped:
        returned = failed = 0
        silent = ledger.silent()
        # A heartbeat of one that holds nothing and is not on the roll harms nobody, and is not worth a push of its own.
        if not any(stem in ledger.held or ledger.heartbeats.on_roll(stem) for stem in silent) and len(silent) < 50:
            return Reaped()
        for stem in silent:
            for place in list(ledger.held.get(stem, {}).values()):
                record = ledger.record(place)
                if record is None:
                    ledger.set_aside(place)
                    continue
                record.worker = ledger.holder(place)
                crash = CrashedError(f"worker {record.worker} went silent and its lease expired")
                with _set_aside_if_unfit(ledger, place):
                    ended = _fail(ledger, place, record, Failed(Failure.of(crash)), now, None)
                    failed += ended is State.FAILED
                    returned += ended is State.PENDING
            ledger.bury(stem)
        return Reaped(returned, failed)


class Retry(Operation[int]):
    """Give failed and cancelled jobs all their attempts again."""

    verb = "retry"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, ledger: BranchState, now: float) -> int:
        states = frozenset({State.FAILED, State.CANCELLED})
        retried = 0
        for place, record in list(selected(ledger, self._selection, now, states=states)):
            record.attempts, record.not_before, record.settled_at = 0, None, None
            record.worker = record.seconds = None
            with _set_aside_if_unfit(ledger, place):
                ledger.move(place, _replaced(place, folder=_waiting_room(record), due=None), rewritten(record))
                retried += 1
        return retried


class Cancel(Operation[int]):
    """Cancel pending and claimed jobs."""

    verb = "cancel"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, ledger: BranchState, now: float) -> int:
        states = frozenset({State.PENDING, State.CLAIMED})
        cancelled = 0
        for place, record in list(selected(ledger, self._selection, now, states=states)):
            if place.state is State.CLAIMED:
                record.worker = ledger.holder(place)
            record.not_before, record.settled_at = None, now
            with _set_aside_if_unfit(ledger, place):
                _finish(ledger, place, record, State.CANCELLED)
                cancelled += 1
        return cancelled


class Prune(Operation[int]):
    """Remove finished jobs."""

    verb = "prune"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, ledger: BranchState, now: float) -> int:
        states = frozenset({State.COMPLETED, State.FAILED, State.CANCELLED})
        chosen = list(selected(ledger, self._selection, now, states=states))
        for place, _ in chosen:
            ledger.move(place, None)
        return len(chosen)


class Archive(Operation[int]):
    """Pack completed jobs away."""

    verb = "archive"

    def __init__(self, selection: Selection) -> None:
        self._selection = selection

    def apply(self, ledger: BranchState, now: float) -> int:
        found = selected(ledger, self._selection, now, states=frozenset({State.COMPLETED}))
        chosen = [(place, record) for place, record in found if not place.is_archived]
        if chosen:
            ledger.pack(chosen)
        return len(chosen)


class WriteNotes(Operation[list[str | None]]):
    """Write notes, each where nobody was faster."""

    verb = "note"

    def __init__(self, shelf: str, notes: Sequence[StateEntry]) -> None:
        self._shelf = shelf
        self._notes = [msgspec.structs.replace(note, value=_small(note.value, "A shared entry")) for note in notes]

    def apply(self, ledger: BranchState, now: float) -> list[str | None]:
        del now
        return [ledger.note(self._shelf, note) for note in self._notes]


def _small(value: Any, what: str) -> Any:
    """A value as it will be read. Raises `UsageError` where it cannot be, and where it is too large."""
    encoded = bytes(storable(value, what))
    if len(encoded) > ROOM:
        raise UsageError(f"{what} may have {ROOM} bytes, not {len(encoded)}")
    return msgspec.json.decode(encoded)


def _held(ledger: BranchState, stem: str) -> list[Held]:
    return [Held(str(place.number), place.epoch) for place in ledger.held.get(stem, {}).values()]


@contextmanager
def _set_aside_if_unfit(ledger: BranchState, place: JobPath) -> Iterator[None]:
    """Where a job cannot be moved, which can only be one that none of us wrote, the others are moved all the same."""
    try:
        yield
    except UsageError:
        ledger.set_aside(place)


def _fail(
    ledger: BranchState, place: JobPath, record: BranchJob, outcome: Failed, now: float, seconds: float | None
) -> State:
    entry = Attempt(
        epoch=place.epoch, worker=record.worker or "", ended_at=now, failure=outcome.failure, seconds=seconds
    )
    record.history = [*record.history, entry]
    record.attempts += 1
    record.max_attempts = outcome.max_attempts or record.max_attempts
    record.failure = outcome.failure
    if outcome.failure.retryable and record.attempts < record.max_attempts:
        _give_back(ledger, place, record, outcome.retry_in, now)
        return State.PENDING
    record.settled_at, record.seconds = now, seconds
    _finish(ledger, place, record, State.FAILED)
    return State.FAILED


def _give_back(ledger: BranchState, place: JobPath, record: BranchJob, delay: timedelta, now: float) -> None:
    record.worker = None
    record.not_before = now + delay.total_seconds() if delay else None
    back = _replaced(place, folder=_waiting_room(record), holder="", due=files.due_of(record.not_before))
    ledger.move(place, back, rewritten(record))


def _finish(ledger: BranchState, place: JobPath, record: BranchJob, state: State) -> None:
    record.not_before = None
    done = _replaced(place, folder=files.FINISHED_FOLDERS[state], holder="", due=None)
    ledger.move(place, done, rewritten(record))


def _waiting_room(record: BranchJob) -> str:
    return files.RETRY if record.failure is not None else files.AVAILABLE


def _replaced(place: JobPath, **changes: Any) -> JobPath:
    return msgspec.structs.replace(place, **changes)


def _storable(outcome: Outcome) -> Outcome:
    """The outcome as it can be written later, whatever its maker does to it."""
    match outcome:
        case Completed():
            return Completed(storable(outcome.result, "A result"))
        case Failed():
            return msgspec.structs.replace(outcome, failure=bounded(outcome.failure))
        case _:
            return outcome


def _follow_on(outcome: Outcome) -> list[BranchJob]:
    """The jobs an outcome brings, before it is known what they come from."""
    return [accepted(BranchJob.of(job, 0.0))[0] for job in outcome.jobs] if isinstance(outcome, Completed) else []
