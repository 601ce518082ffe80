"""A state machine that makes random calls on a medium and on the reference, and compares the results.

Jobs are compared by name, because ids differ between media. The calls go through several openings of the medium, which
are closed and opened again at random: a submitter is not the worker that settles. All jobs are listed only now and
then, because a listing may bring an opening up to date that would otherwise answer from what it remembers.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from itertools import cycle
from typing import Any, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from longshore.clock import ManualClock
from longshore.conformance.harness import Harness, NewHarness
from longshore.errors import Failure
from longshore.extensions.find import require
from longshore.extensions.presence import WorkerInfo, WorkerRegistry
from longshore.extensions.transfer import Carried, TakesOver
from longshore.job import FINISHED, Attempt, Job, JobName, NewJob, State
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.media.memory import MemoryQueue
from longshore.outcome import Completed, Failed, Outcome, Released, Settlement, Snoozed
from longshore.queue import Count, Queue, Reaped, Selection

T = TypeVar("T")
Name = tuple[str, str, str]

LEASE = timedelta(seconds=60)
# No sum of steps is within seconds of a lease or a delay, so that a medium on a real clock gives the same results.
STEPS = (17.0, 61.0)
DELAY = timedelta(seconds=30)

OBSERVER = 0
"""The number of the opening that is never closed."""
OPENINGS = 3
"""The greatest number of openings of the medium that take turns."""

# Two workers have the same label, and must share nothing else.
WORKERS = (WorkerId("anna", "anna/1"), WorkerId("anna", "anna/2"), WorkerId("bert", "bert/1"))
RUNS = ("one", "two")
KINDS = ("page", "image")
PARTITIONS = ("", "CA", "TX")
# Retry is twice as frequent, so that cancelled and failed jobs become pending again and a walk does not run dry.
OPERATIONS = ("retry", "retry", "cancel", "release", "prune")


def _rarely(strategy: st.SearchStrategy[T]) -> st.SearchStrategy[T | None]:
    """Return a strategy that is mostly None: with all filters set, most steps would select no job."""
    return st.one_of(st.none(), st.none(), st.none(), strategy)


def _some_of(values: tuple[str, ...]) -> st.SearchStrategy[frozenset[str]]:
    return st.frozensets(st.sampled_from(values), min_size=1)


new_jobs = st.builds(
    NewJob,
    run=st.sampled_from(RUNS),
    kind=st.sampled_from(KINDS),
    key=st.sampled_from("abc"),
    payload=st.fixed_dictionaries({"n": st.integers(0, 9)}),
    priority=st.integers(-1, 1),
    partition=st.sampled_from(PARTITIONS),
    # Of one host, because turns of several hosts may begin at any of them.
    host=st.just("x.test"),
    # Long past, or in a far future, so that only a retry makes the job ready.
    not_before=_rarely(st.sampled_from([1.0, 9e9])),
    max_attempts=st.integers(1, 3),
)
failures = st.builds(
    Failure,
    error_type=st.sampled_from(["processing", "timeout"]),
    message=st.sampled_from(["it broke", "no answer"]),
    exception=st.sampled_from(["shop.BrokenError", "TimeoutError"]),
    retryable=st.sampled_from([True, True, False]),
)
outcomes: st.SearchStrategy[Outcome] = st.one_of(
    st.builds(
        Completed,
        result=st.none() | st.integers() | st.lists(st.text(max_size=3), max_size=2),
        jobs=st.lists(new_jobs, max_size=3).map(tuple),
    ),
    st.builds(
        Failed,
        failure=failures,
        retry_in=st.sampled_from([timedelta(0), DELAY]),
        max_attempts=_rarely(st.integers(1, 4)),
    ),
    st.builds(Snoozed, delay=st.just(DELAY)),
    st.just(Released()),
)
selections = st.builds(
    Selection,
    run=_rarely(st.sampled_from(RUNS)),
    kinds=_rarely(_some_of(KINDS)),
    partitions=_rarely(_some_of(PARTITIONS)),
    states=_rarely(st.frozensets(st.sampled_from(list(State)), min_size=1)),
    error=_rarely(st.sampled_from(["*", "BROKEN*", "crash", "no*"])),
    older_than=_rarely(st.just(DELAY)),
)
wants = st.builds(
    Want,
    worker=st.sampled_from(WORKERS),
    limit=st.integers(1, 8),
    lease=st.just(LEASE),
    run=_rarely(st.sampled_from(RUNS)),
    kinds=_rarely(_some_of(KINDS)),
    partitions=_rarely(_some_of(PARTITIONS)),
    without_hosts=st.sampled_from([frozenset[str](), frozenset[str](), frozenset({"y.test"}), frozenset({"x.test"})]),
)
infos = st.builds(WorkerInfo, slots=_rarely(st.integers(0, 3)), busy=_rarely(st.integers(0, 3)))


@st.composite
def carried(draw: st.DrawFn) -> Carried:
    """Return a job as another queue may have left it, settled years ago, so that all clocks agree."""
    new, state = draw(new_jobs), draw(st.sampled_from(list(State)))
    failed = draw(st.lists(failures, max_size=2))
    epoch = len(failed) + draw(st.integers(0, 2)) + (state in {State.CLAIMED, State.COMPLETED})
    ended: dict[str, Any] = {"settled_at": 2.0, "worker": "carl", "seconds": 0.25} if state in FINISHED else {}
    fields = msgspec.structs.asdict(new)
    # Only a new job has it.
    del fields["default_key"]
    job = Job(
        **fields | {"not_before": new.not_before if state is State.PENDING else None},
        id="theirs",
        parent=draw(_rarely(st.just(JobName("list", "z")))),
        depth=draw(st.integers(0, 2)),
        state=state,
        epoch=epoch,
        attempts=len(failed) + (state is State.COMPLETED),
        submitted_at=1.0,
        result=draw(st.integers()) if state is State.COMPLETED else None,
        failure=failed[-1] if failed and state is not State.COMPLETED else None,
        **ended,
    )
    history = [Attempt(epoch=n, worker="carl", ended_at=float(n), failure=why) for n, why in enumerate(failed, start=1)]
    return Carried(job, tuple(history))


class Comparison(RuleBasedStateMachine):
    """Each rule makes one call on both queues, with equal results; at the end, and now and then, both show the same."""

    new_harness: NewHarness

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._clock = ManualClock()
        self._reference: Queue = MemoryQueue(self._clock)
        self._harness: Harness = type(self).new_harness()
        self._observer: Queue = self._run(self._harness.open())
        """It stays open, and reaps before the others: some media measure silence from the last look of an opening."""
        self._openings: dict[int, Queue] = {OBSERVER: self._observer}
        self._turns: Iterator[tuple[int, bool]]
        """The number of the opening for each step, and whether it is closed and opened again before."""
        self._medium: Queue = self._observer
        """The opening whose turn it is."""
        self._leases: list[tuple[Lease, Lease]] = []
        """All leases ever returned, by the medium and by the reference; most of them are stale after some steps."""

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:
                self._medium = self._openings[OPENINGS] = self._run(self._harness.open())
                self.list_everything()
        finally:
            for opening in self._openings.values():
                self._run(opening.close())
            self._run(self._harness.close())
            self._runner.close()

    @invariant()
    def use_the_next_opening(self) -> None:
        number, reopen = next(self._turns)
        if reopen and number in self._openings and number != OBSERVER:
            self._run(self._openings.pop(number).close())
        if number not in self._openings:
            self._openings[number] = self._run(self._harness.open())
        self._medium = self._openings[number]

    @initialize(
        batch=st.lists(new_jobs, min_size=4, max_size=8),
        turns=st.lists(st.tuples(st.integers(0, OPENINGS - 1), st.booleans()), min_size=1, max_size=7),
    )
    def begin(self, batch: list[NewJob], turns: list[tuple[int, bool]]) -> None:
        self._turns = cycle(turns)
        self._both(lambda queue: queue.submit(batch))

    @rule(batch=st.lists(new_jobs, min_size=1, max_size=6))
    def submit(self, batch: list[NewJob]) -> None:
        self._both(lambda queue: queue.submit(batch))

    @precondition(lambda self: self._medium.traits.takes_over)
    @rule(batch=st.lists(carried(), min_size=1, max_size=3))
    def take_over(self, batch: list[Carried]) -> None:
        self._both(lambda queue: require(queue, TakesOver, "lacks it").take_over(batch))

    @rule(want=wants)
    def claim(self, want: Want) -> None:
        ours, reference = self._each(lambda queue: queue.claim(want))
        assert [_shown(lease.job) for lease in ours] == [_shown(lease.job) for lease in reference]
        self._leases += zip(ours, reference, strict=True)
        self._observe()

    @rule(worker=st.sampled_from(WORKERS))
    def renew(self, worker: WorkerId) -> None:
        ours, reference = self._each(lambda queue: queue.renew(worker, LEASE))
        self._compare_held(ours, reference)
        self._observe()

    @precondition(lambda self: self._medium.traits.tracks_presence)
    @rule(worker=st.sampled_from(WORKERS), info=infos)
    def register(self, worker: WorkerId, info: WorkerInfo) -> None:
        ours, reference = self._each(
            lambda queue: require(queue, WorkerRegistry, "lacks it").register(worker, LEASE, info)
        )
        self._compare_held(ours, reference)
        self._observe()

    @precondition(lambda self: self._medium.traits.tracks_presence)
    @rule(worker=st.sampled_from(WORKERS))
    def deregister(self, worker: WorkerId) -> None:
        self._both(lambda queue: require(queue, WorkerRegistry, "lacks it").deregister(worker))

    @precondition(lambda self: self._leases)
    @rule(picks=st.lists(st.tuples(st.integers(0, 7), outcomes, st.sampled_from([None, 0.5])), min_size=1, max_size=4))
    def settle(self, picks: list[tuple[int, Outcome, float | None]]) -> None:
        chosen = [(self._leases[-1 - at % len(self._leases)], outcome, seconds) for at, outcome, seconds in picks]
        ours = self._run(self._medium.settle([Settlement(pair[0], outcome, s) for pair, outcome, s in chosen]))
        reference = self._run(self._reference.settle([Settlement(pair[1], outcome, s) for pair, outcome, s in chosen]))
        assert ours == reference

    @precondition(lambda self: self._leases)
    @rule(at=st.integers(0, 3), outcome=outcomes)
    def settle_one_of_the_latest(self, at: int, outcome: Outcome) -> None:
        self.settle([(at, outcome, 2.0)])

    @precondition(lambda self: self._leases)
    @rule(at=st.integers(0, 3), follow_ons=st.lists(new_jobs, min_size=1, max_size=3))
    def complete_and_submit_again(self, at: int, follow_ons: list[NewJob]) -> None:
        """Complete a page whose links lead back to it: no opening may have forgotten it."""
        self.settle([(at, Completed(jobs=tuple(follow_ons)), None)])
        job = self._leases[-1 - at % len(self._leases)][0].job
        again = NewJob(run=job.run, kind=job.kind, key=job.key, payload={})
        self._both(lambda queue: queue.submit([again, *follow_ons]))

    @rule()
    def reap(self) -> None:
        self._observe()
        assert self._medium is self._observer or self._run(self._medium.reap()) == Reaped()

    @rule(seconds=st.sampled_from(STEPS))
    def advance(self, seconds: float) -> None:
        self._clock.advance(seconds)
        self._run(self._harness.advance(seconds))

    @rule(selection=selections, operation=st.sampled_from(OPERATIONS))
    def operate(self, selection: Selection, operation: str) -> None:
        self._both(lambda queue: _operate(queue, operation, selection))

    @rule(numbers=st.frozensets(st.integers(0, 11), max_size=4), operation=st.sampled_from(OPERATIONS))
    def operate_by_id(self, numbers: frozenset[int], operation: str) -> None:
        async def operate(queue: Queue) -> int:
            found = await (self._observer if queue is self._medium else queue).jobs(Selection())
            ids = frozenset(job.id for number, job in enumerate(found) if number in numbers)
            return await _operate(queue, operation, Selection(ids=ids))

        self._both(operate)

    @rule(selection=selections, limit=st.integers(1, 4))
    def page(self, selection: Selection, limit: int) -> None:
        async def pages(queue: Queue) -> list[list[Name]]:
            first = await queue.jobs(selection, limit=limit)
            second = await queue.jobs(selection, after=first[-1].id, limit=limit) if first else []
            return [[_name(job) for job in page] for page in (first, second)]

        self._both(pages)

    @rule(want=wants)
    def look_for_work(self, want: Want) -> None:
        self._both(lambda queue: queue.wait(want, timedelta(0)))

    @rule()
    def count(self) -> None:
        self._both(_counted)

    @rule()
    def list_everything(self) -> None:
        async def everything(queue: Queue) -> tuple[list[Any], list[Any], list[Any]]:
            found = await queue.jobs(Selection())
            histories = [[_entry(entry) for entry in await queue.history(job.id)] for job in found if job.epoch]
            return [_shown(job) for job in found], histories, await _counted(queue)

        self._both(everything)

    def _observe(self) -> None:
        """Reap on both queues. Done after every heartbeat, so that a medium measures silence from then on."""
        assert self._run(self._observer.reap()) == self._run(self._reference.reap())
        if self._medium.traits.tracks_presence:
            ours, reference = (
                require(queue, WorkerRegistry, "lacks it") for queue in (self._observer, self._reference)
            )
            assert self._run(ours.present_workers()) == self._run(reference.present_workers())

    def _both(self, call: Callable[[Queue], Awaitable[T]]) -> None:
        ours, reference = self._each(call)
        assert ours == reference

    def _each(self, call: Callable[[Queue], Awaitable[T]]) -> tuple[T, T]:
        return self._run(call(self._medium)), self._run(call(self._reference))

    def _run(self, call: Awaitable[T]) -> T:
        async def answer() -> T:
            return await call

        return self._runner.run(answer())

    def _compare_held(self, ours: list[Held], reference: list[Held]) -> None:
        # Every job that is held was claimed here, so no listing is needed to know its name.
        names = {lease.job.id: _name(lease.job) for lease, _ in self._leases}
        names_there = {lease.job.id: _name(lease.job) for _, lease in self._leases}
        assert {(names[each.job_id], each.epoch) for each in ours} == {
            (names_there[each.job_id], each.epoch) for each in reference
        }


async def _operate(queue: Queue, operation: str, selection: Selection) -> int:
    answer: int = await getattr(queue, operation)(selection)
    return answer


async def _counted(queue: Queue) -> list[Count]:
    # A medium may keep the counters of a run, kind and partition without jobs.
    return [count for count in await queue.stats() if count.total]


def _name(job: Job) -> Name:
    return (job.run, job.kind, job.key)


def _shown(job: Job) -> dict[str, Any]:
    """Return the fields in which two media must agree; instants and ids differ."""
    shown = msgspec.structs.asdict(job)
    for differing in ("id", "queue", "submitted_at", "not_before"):
        del shown[differing]
    shown["settled_at"] = job.settled_at is not None
    shown["failure"] = _why(job.failure)
    if job.state in {State.PENDING, State.CANCELLED}:
        # The worker and the duration of an earlier attempt are not defined in these states.
        del shown["worker"], shown["seconds"]
    return shown


def _entry(entry: Attempt) -> tuple[int, str, float | None, Any]:
    return (entry.epoch, entry.worker, entry.seconds, _why(entry.failure))


def _why(failure: Failure | None) -> Any:
    """Return a failure; for an expired lease, without the message, which differs between media."""
    return "crash" if failure is not None and failure.error_type == "crash" else failure


def machine_for(new_harness: NewHarness) -> type[Comparison]:
    """Return the state machine class for this medium."""
    return type("Comparison", (Comparison,), {"new_harness": staticmethod(new_harness)})
