"""Submitting the jobs of a file into a run: checked first where it can be, in batches, and safe to repeat."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from longshore.clock import Clock
from longshore.errors import InputFileError, QueueError, UsageError
from longshore.job import DEFAULT_MAX_ATTEMPTS, NewJob, new_job
from longshore.queue import Queue
from longshore.runs.inputs import Entry, Input

BATCH = 5000
"""Jobs to a call: as many as bring no more speed."""
_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What the jobs of a file become. What a line says of itself goes before this."""

    run: str
    kind: str
    priority: int = 0
    partition: str = ""
    max_attempts: int = DEFAULT_MAX_ATTEMPTS

    def job(self, entry: Entry) -> NewJob:
        """The job that an entry becomes."""
        return new_job(
            self.kind,
            entry.payload,
            run=self.run,
            key=entry.key,
            priority=self.priority if entry.priority is None else entry.priority,
            partition=self.partition if entry.partition is None else entry.partition,
            not_before=entry.not_before,
            max_attempts=self.max_attempts,
        )


class Submission(msgspec.Struct, frozen=True):
    """What came of it."""

    run_id: str
    submitted: int = 0
    duplicates: int = 0


def check_file(source: Input) -> None:
    """Read a file through before anything is touched: `InputFileError` for a malformed line, and if no job is in it.

    A pipe cannot be read twice and is left alone.
    """
    if source.rereadable:
        try:
            source.check()
        except InputFileError as error:
            raise InputFileError(f"{error} Nothing was submitted.") from error


async def submit_file(
    queue: Queue, source: Input, plan: Plan, *, progress: Callable[[Submission], None] | None = None
) -> Submission:
    """Submit every job of a file, a few thousand at a time.

    A malformed line ends it: the error says how many jobs had been submitted before. `check_file` finds such a line
    before the first is. Submitting again is harmless: what is known is counted as a duplicate.
    """
    done = Submission(plan.run)
    entries = source.entries()
    try:
        while batch := [plan.job(entry) for entry in itertools.islice(entries, BATCH)]:
            answer = await queue.submit(batch)
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


def check_run_id(run: str) -> str:
    """The run id, if it can be one; it becomes part of file names and commands."""
    if not _RUN_ID.match(run):
        raise UsageError(
            f"'{run}' cannot be a run id: it is made of letters, digits, '.', '_' and '-', starts with a letter or "
            "digit, and has at most 100 characters."
        )
    return run


async def new_run_id(queue: Queue, clock: Clock) -> str:
    """An id that no run of the queue has: the time (UTC), with a number behind it where that is taken."""
    stem = datetime.fromtimestamp(clock.now(), UTC).strftime("%Y%m%d_%H%M%S")
    for suffix in itertools.chain([""], (f"_{n}" for n in itertools.count(2))):
        if not await queue.stats(stem + suffix):
            return stem + suffix
    raise AssertionError("unreachable")
