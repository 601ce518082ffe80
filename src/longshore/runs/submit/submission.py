"""Submitting the jobs of a source into a run: checked first where it can be, in batches, and safe to repeat."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

import msgspec

from longshore.clock import Clock
from longshore.errors import InputFileError, QueueError, UsageError
from longshore.extensions.find import find
from longshore.extensions.shared_state import ABSENT, SharedState, StateEntry
from longshore.job import DEFAULT_MAX_ATTEMPTS, NewJob, new_job
from longshore.queue import Queue
from longshore.runs.sources import Source
from longshore.runs.submit.input_files import InputEntry

BATCH = 5000
"""Jobs to a call: as many as bring no more speed."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
_SHELF = "run_ids"
"""Where an id is reserved between being made and the first job of its run."""
_RESERVED = 3600.0
"""Seconds after which a reservation may go: nobody makes ids of an hour ago, and by then the run has jobs, or never."""


class SubmissionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What the jobs of a source become. What one says of itself goes before this."""

    run: str
    kind: str
    priority: int = 0
    partition: str = ""
    partitions: frozenset[str] | None = None
    """Where given, the only partitions there may be."""
    max_attempts: int = DEFAULT_MAX_ATTEMPTS

    def job(self, entry: InputEntry) -> NewJob:
        """The job that an entry becomes. `InputFileError` for one of a partition that there is not."""
        partition = self.partition if entry.partition is None else entry.partition
        if self.partitions is not None and partition and partition not in self.partitions:
            raise InputFileError(
                f"A job is of partition '{partition}', which is none of the scraper's: "
                f"{', '.join(sorted(self.partitions))}. Add it there, or correct the source."
            )
        return new_job(
            self.kind if entry.kind is None else entry.kind,
            entry.payload,
            run=self.run,
            key=entry.key,
            priority=self.priority if entry.priority is None else entry.priority,
            partition=partition,
            host=entry.host,
            not_before=entry.not_before,
            max_attempts=self.max_attempts if entry.max_attempts is None else entry.max_attempts,
        )


class Submission(msgspec.Struct, frozen=True):
    """What came of it."""

    run_id: str
    submitted: int = 0
    duplicates: int = 0


def check_file(source: Source) -> None:
    """Read a source through before anything is touched: `InputFileError` for a malformed line, and if no job is in it.

    What cannot be read twice, as a pipe, is left alone.
    """
    if source.rereadable:
        try:
            if not sum(1 for _ in source.entries()):
                source.refuse_empty()
        except InputFileError as error:
            raise InputFileError(f"{error} Nothing was submitted.") from error


async def submit_file(
    queue: Queue, source: Source, plan: SubmissionPlan, *, progress: Callable[[Submission], None] | None = None
) -> Submission:
    """Submit every job of a source, a few thousand at a time.

    A malformed line ends it: the error says how many jobs had been submitted before. `check_file` finds such a line
    before the first is. Submitting again is harmless: what is known is counted as a duplicate.
    """
    done = Submission(plan.run)
    jobs = _jobs(source, plan)
    try:
        while batch := list(itertools.islice(jobs, BATCH)):
            try:
                answer = await queue.submit(batch)
            except UsageError as error:
                raise InputFileError(f"A job of {source.name} cannot be one: {error}.") from error
            done = Submission(plan.run, done.submitted + answer.new, done.duplicates + answer.duplicates)
            if progress is not None:
                progress(done)
        if done == Submission(plan.run):
            source.refuse_empty()
    except (InputFileError, QueueError) as error:
        sent = done.submitted + done.duplicates
        if isinstance(error, QueueError) and not sent:
            raise
        if not sent:
            raise InputFileError(f"{error} Nothing was submitted.") from error
        raise type(error)(
            f"{error} Before that, {sent:,} {'job was' if sent == 1 else 'jobs were'} submitted to run {plan.run}; "
            f"with --run {plan.run}, the same command goes on from there."
        ) from error
    return done


def _jobs(source: Source, plan: SubmissionPlan) -> Iterator[NewJob]:
    for number, entry in enumerate(source.entries(), start=1):
        try:
            job = plan.job(entry)
        except InputFileError:
            raise
        except UsageError as error:
            raise InputFileError(f"{source.name}, job {number:,}: {error}.") from error
        yield job


def check_run_id(run: str) -> str:
    """The run id, if it can be one; it becomes part of file names and commands."""
    if not _RUN_ID.match(run):
        raise UsageError(
            f"'{run}' cannot be a run id: it is made of letters, digits, '.', '_' and '-', starts with a letter or "
            "digit, and has at most 100 characters."
        )
    return run


async def new_run_id(queue: Queue, clock: Clock) -> str:
    """An id that no run of the queue has: the time (UTC), with a number behind it where that is taken.

    Nobody else is given the same one, be it in the same second, where the queue keeps notes.
    """
    stem = datetime.fromtimestamp(clock.now(), UTC).strftime("%Y%m%d_%H%M%S")
    for suffix in itertools.chain([""], (f"_{n}" for n in itertools.count(2))):
        run = stem + suffix
        # In this order: whoever reserved it before has either jobs by now, or the reservation still.
        if await _reserve(queue, run) and not await queue.stats(run):
            return run
    raise AssertionError("unreachable")


async def _reserve(queue: Queue, run: str) -> bool:
    """Whether the id is ours from now on. Reservations that nobody needs any more are cleared away with it."""
    state = find(queue, SharedState)
    if state is None:
        return True
    read = await state.read_entries(_SHELF)
    if read.get(run).version != ABSENT:
        return False
    old = [StateEntry(each.name, each.version, None) for each in read.entries if not _is_recent(each.value, read.now)]
    made, *_ = await state.swap_entries(_SHELF, [StateEntry(run, ABSENT, {"at": read.now}), *old])
    return made is not None


def _is_recent(value: object, now: float) -> bool:
    at = value.get("at") if isinstance(value, dict) else None
    return isinstance(at, int | float) and now - at < _RESERVED
