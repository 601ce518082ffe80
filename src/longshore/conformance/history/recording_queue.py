"""A queue that records every call that may change jobs, with its answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

import msgspec

from longshore.conformance.history.events import (
    Answered,
    Called,
    Chosen,
    JobCarried,
    LeaseGiven,
    Name,
    SettlementSent,
    WorkerNamed,
)
from longshore.conformance.history.history_file import HistoryWriter, settlement_path
from longshore.errors import UsageError
from longshore.extensions.find import require
from longshore.extensions.transfer import Carried, TakesOver
from longshore.job import Job, NewJob
from longshore.lease import Lease, Want
from longshore.outcome import Completed, Failed, Settlement
from longshore.queue import Queue, Reaped, Selection, Submitted
from longshore.stored import UNFIT
from longshore.wrappers.queue_wrapper import QueueWrapper

T = TypeVar("T")


class RecordingQueue(QueueWrapper):
    """A queue that writes a `Called` before and an `Answered` after each call, for the history checker.

    Wrap the medium itself, below all other wrappers: then the history shows what reached the medium.
    """

    def __init__(self, queue: Queue, recorder: HistoryWriter, name: str) -> None:
        """`name` is the same for all handles of one queue, and differs between queues."""
        super().__init__(queue)
        self._recorder = recorder
        self._name = name
        self._holders: set[str] = set()

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        called = self._called("submit", names=tuple((job.run, job.kind, job.key) for job in jobs))
        return await self._recorded(called, self._queue.submit(jobs), _submitted)

    async def claim(self, want: Want) -> list[Lease]:
        holder = want.worker.incarnation
        if holder not in self._holders:
            self._holders.add(holder)
            self._recorder.write(WorkerNamed(holder=holder))
        called = self._called("claim", holder=holder, chosen=_wanted(want))
        return await self._recorded(called, self._queue.claim(want), _leases)

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        sent = tuple(map(_sent, settlements))
        called = msgspec.structs.replace(
            self._called("settle", path=settlement_path(), settlements=sent),
            keeps_limits=self._queue.traits.keeps_limits,
        )
        return await self._recorded(called, self._queue.settle(settlements), _accepted)

    async def reap(self) -> Reaped:
        return await self._recorded(self._called("reap"), self._queue.reap(), _reaped)

    async def retry(self, selection: Selection) -> int:
        called = self._called("retry", chosen=_chosen(selection))
        return await self._recorded(called, self._queue.retry(selection), _changed)

    async def cancel(self, selection: Selection) -> int:
        called = self._called("cancel", chosen=_chosen(selection))
        return await self._recorded(called, self._queue.cancel(selection), _changed)

    async def release(self, selection: Selection) -> int:
        called = self._called("release", chosen=_chosen(selection))
        return await self._recorded(called, self._queue.release(selection), _changed)

    async def prune(self, selection: Selection) -> int:
        called = self._called("prune", chosen=_chosen(selection))
        return await self._recorded(called, self._queue.prune(selection), _changed)

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        """Take over jobs, if the medium can; see `extensions.transfer`."""
        target = require(self._queue, TakesOver, "cannot take over jobs.")
        called = self._called("take_over", carried=tuple(_carried(each.job) for each in carried))
        return await self._recorded(called, target.take_over(carried), _submitted)

    def _called(
        self,
        verb: str,
        *,
        path: str = "",
        holder: str = "",
        names: tuple[Name, ...] = (),
        settlements: tuple[SettlementSent, ...] = (),
        carried: tuple[JobCarried, ...] = (),
        chosen: Chosen | None = None,
    ) -> Called:
        return Called(
            call=self._recorder.call_number(),
            queue=self._name,
            verb=verb,
            path=path,
            holder=holder,
            names=names,
            settlements=settlements,
            carried=carried,
            chosen=chosen,
        )

    async def _recorded(self, called: Called, call: Awaitable[T], answer: Callable[[int, T], Answered]) -> T:
        self._recorder.write(called)
        try:
            value = await call
        except BaseException as error:
            refused = isinstance(error, UsageError)
            self._recorder.write(Answered(call=called.call, error=type(error).__name__, refused=refused))
            raise
        self._recorder.write(answer(called.call, value))
        return value


def _submitted(call: int, answer: Submitted) -> Answered:
    return Answered(call=call, new=answer.new, duplicates=answer.duplicates)


def _leases(call: int, answer: list[Lease]) -> Answered:
    return Answered(call=call, leases=tuple(map(_given, answer)))


def _accepted(call: int, answer: list[bool]) -> Answered:
    return Answered(call=call, accepted=tuple(answer))


def _reaped(call: int, answer: Reaped) -> Answered:
    return Answered(call=call, changed=answer.returned + answer.failed)


def _changed(call: int, answer: int) -> Answered:
    return Answered(call=call, changed=answer)


def _name(job: Job) -> Name:
    return job.run, job.kind, job.key


def _given(lease: Lease) -> LeaseGiven:
    return LeaseGiven(id=lease.job.id, name=_name(lease.job), epoch=lease.epoch, holder=lease.worker.incarnation)


def _sent(settlement: Settlement) -> SettlementSent:
    job, outcome = settlement.lease.job, settlement.outcome
    follow_ons: tuple[Name, ...] = ()
    result, last = "", False
    if isinstance(outcome, Completed):
        follow_ons = tuple((job.run, new.kind, new.key) for new in outcome.jobs)
        result = sorted_json(outcome.result)
    elif isinstance(outcome, Failed):
        limit = outcome.max_attempts or job.max_attempts
        last = not outcome.failure.retryable or job.attempts + 1 >= limit
    return SettlementSent(
        id=job.id,
        name=_name(job),
        epoch=settlement.lease.epoch,
        holder=settlement.lease.worker.incarnation,
        outcome=type(outcome).__name__.lower(),
        last=last,
        follow_ons=follow_ons,
        result=result,
    )


def _carried(job: Job) -> JobCarried:
    return JobCarried(name=_name(job), state=job.state.value, epoch=job.epoch, attempts=job.attempts)


def _chosen(selection: Selection) -> Chosen:
    ids = selection.ids
    return Chosen(
        run=selection.run, ids=None if ids is None else tuple(sorted(ids)), kinds=_sorted_kinds(selection.kinds)
    )


def _wanted(want: Want) -> Chosen:
    return Chosen(run=want.run, kinds=_sorted_kinds(want.kinds))


def _sorted_kinds(kinds: frozenset[str] | None) -> tuple[str, ...] | None:
    return None if kinds is None else tuple(sorted(kinds))


def sorted_json(value: object) -> str:
    """Return the JSON of a value in one spelling, to compare values that went through a medium; "" if it has none."""
    try:
        raw = msgspec.json.encode(value)
        return msgspec.json.encode(msgspec.json.decode(raw), order="sorted").decode()
    except UNFIT:
        # Not the recorder's task: the medium refuses the value.
        return ""
