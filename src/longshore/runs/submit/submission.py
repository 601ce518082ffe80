"""Submit the jobs of a source to a run, in batches. A source that can be read twice is checked first.

Submitting is safe to repeat: the queue recognises jobs by run, kind and key.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Generator
from datetime import UTC, datetime

import msgspec

from longshore.clock import Clock, SystemClock
from longshore.errors import InputFileError, QueueError, UsageError
from longshore.extensions.find import find
from longshore.extensions.shared_state import ABSENT, SharedState, StateEntry
from longshore.job import DEFAULT_MAX_ATTEMPTS, NewJob, new_job
from longshore.queue import Queue, Submitted
from longshore.runs.sources import Source
from longshore.runs.submit.batches import submit_batches
from longshore.runs.submit.input_files import InputEntry
from longshore.runs.submit.shared_urls import NOT_DECLARED, Fix, Identities, SharedUrls, by_option
from longshore.stored import LATEST
from longshore.wrappers.differing_duplicates import DifferingDuplicates

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}\Z")
RUN_IDS = "run_ids"
"""Namespace of the shared state in which a new run id is reserved until its run has jobs."""
_RESERVED = 3600.0
"""Seconds after which a reservation is removed: ids contain the time, and by then the run has jobs or failed."""


class SubmissionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """Values for the jobs of a source. An entry's own values override them."""

    run: str
    kind: str
    priority: int = 0
    partition: str = ""
    partitions: frozenset[str] | None = None
    """The allowed partitions; None allows any."""
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    identities: Identities = NOT_DECLARED
    """The payload fields that make jobs different, by kind; a kind without them is known by its URL."""

    def job(self, entry: InputEntry) -> NewJob:
        """Return the job for an entry. Raise `InputFileError` if its partition is not allowed."""
        partition = self.partition if entry.partition is None else entry.partition
        if self.partitions is not None and partition and partition not in self.partitions:
            raise InputFileError(
                f"A job has partition '{partition}', which is not one of the scraper's: "
                f"{', '.join(sorted(self.partitions))}. Add it there, or correct the source."
            )
        kind = self.kind if entry.kind is None else entry.kind
        return new_job(
            kind,
            entry.payload,
            run=self.run,
            key=entry.key,
            identity=self.identities.get(kind),
            priority=self.priority if entry.priority is None else entry.priority,
            partition=partition,
            host=entry.host,
            not_before=entry.not_before,
            max_attempts=self.max_attempts if entry.max_attempts is None else entry.max_attempts,
        )


class Submission(msgspec.Struct, frozen=True):
    """The result of submitting a source."""

    run_id: str
    submitted: int = 0
    duplicates: int = 0
    differing: DifferingDuplicates = DifferingDuplicates()
    """Those of the duplicates whose payloads differ from the job that the run has."""


def check_file(source: Source, kind: str = "", identities: Identities = NOT_DECLARED, fix: Fix = by_option) -> None:
    """Read a source before anything is submitted. Raise `InputFileError` for a malformed line or an empty source.

    The same for jobs that share a URL and differ in the rest, unless `identities` says what counts for their kind;
    `kind` is that of jobs that name none, and `fix` tells how to say it. A source that cannot be read twice, such as a
    pipe, is not read.
    """
    if source.rereadable:
        try:
            urls = SharedUrls(source, kind, identities)
            if not urls.read():
                source.refuse_empty()
            urls.refuse(fix)
        except InputFileError as error:
            raise InputFileError(f"{error} Nothing was submitted.") from error


async def submit_file(
    queue: Queue,
    source: Source,
    plan: SubmissionPlan,
    *,
    progress: Callable[[Submission], None] | None = None,
    clock: Clock | None = None,
) -> Submission:
    """Submit every job of a source, a few thousand at a time. Until it ends, the run does not count as finished.

    Stop at a malformed line: the error says how many jobs were submitted before it. `check_file` finds such a line
    before the first job is submitted. Jobs that the queue has already are counted as duplicates.
    """
    done = Submission(plan.run)

    def answered(answer: Submitted) -> None:
        nonlocal done
        done = Submission(plan.run, done.submitted + answer.new, done.duplicates + answer.duplicates)
        if progress is not None:
            progress(done)

    try:
        try:
            differing = await submit_batches(queue, plan.run, _jobs(source, plan), clock or SystemClock(), answered)
        except InputFileError:
            raise
        except UsageError as error:
            raise InputFileError(f"The queue refused a job of {source.name}: {error}.") from error
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
            f"with --run {plan.run}, the same command submits the rest."
        ) from error
    return msgspec.structs.replace(done, differing=differing)


def _jobs(source: Source, plan: SubmissionPlan) -> Generator[NewJob, None, None]:
    for number, entry in enumerate(source.entries(), start=1):
        try:
            job = plan.job(entry)
        except InputFileError:
            raise
        except UsageError as error:
            raise InputFileError(f"{source.name}, job {number:,}: {error}.") from error
        yield job


def is_run_id(run: str) -> bool:
    """Return whether commands can name this run. Programs can submit jobs to runs of any name, such as `..`."""
    return _RUN_ID.match(run) is not None


def check_run_id(run: str) -> str:
    """Return the run id. Raise `UsageError` if it is not valid: it becomes part of file names and commands."""
    if not is_run_id(run):
        raise UsageError(
            f"'{run}' cannot be a run id: it is made of letters, digits, '.', '_' and '-', starts with a letter or "
            "digit, and has at most 100 characters."
        )
    return run


async def new_run_id(queue: Queue, clock: Clock) -> str:
    """Return an id that no run of the queue has: the time (UTC), with a number appended if that is taken.

    If the queue has shared state, no other process gets the same id, not even in the same second.
    """
    stem = datetime.fromtimestamp(clock.now(), UTC).strftime("%Y%m%d_%H%M%S")
    for suffix in itertools.chain([""], (f"_{n}" for n in itertools.count(2))):
        run = stem + suffix
        # In this order: a run that reserved the id earlier either has jobs by now, or still has its reservation.
        if await _reserve(queue, run) and not await queue.stats(run):
            return run
    raise AssertionError("unreachable")


async def _reserve(queue: Queue, run: str) -> bool:
    """Reserve the id. Return False if it is reserved already. Expired reservations are removed as well."""
    state = find(queue, SharedState)
    if state is None:
        return True
    read = await state.read_entries(RUN_IDS)
    if read.get(run).version != ABSENT:
        return False
    old = [StateEntry(each.name, each.version, None) for each in read.entries if not _is_recent(each.value, read.now)]
    made, *_ = await state.swap_entries(RUN_IDS, [StateEntry(run, ABSENT, {"at": read.now}), *old])
    return made is not None


def _is_recent(value: object, now: float) -> bool:
    at = value.get("at") if isinstance(value, dict) else None
    return isinstance(at, int | float) and abs(at) <= LATEST and now - at < _RESERVED
