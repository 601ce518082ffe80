"""Schedules: runs that start by themselves at certain times. Kept in the queue, a note each, so that all know of them.

A note says what to submit and when, which time was the last that counted, and, while its jobs are being submitted, who
does that. Whoever finds a time due and writes that it begins, begins; see `triggering`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from longshore.errors import LongshoreError, NotFoundError, QueueUnavailableError, UsageError
from longshore.extensions.find import require
from longshore.extensions.shared_state import ABSENT, UNCHANGED, SharedState, StateEntry, Update, update_entry
from longshore.job import DEFAULT_MAX_ATTEMPTS
from longshore.queue import Queue
from longshore.runs.schedules.timetable import Timetable
from longshore.runs.sources.generated import Generated
from longshore.runs.sources.source import Source
from longshore.runs.submit.input_files import InputEntry, InputFile, InputFormat
from longshore.runs.submit.submission import SubmissionPlan
from longshore.wrappers.growth_limits import GrowthLimits

SHELF = "schedules"
KEPT_BYTES = 64 * 1024
"""What a list of jobs may take that is kept in a note: everybody reads it with every look."""
SILENT_SECONDS = 45.0
"""After so long without a sign of whoever began to submit a run, another goes on with it: in time for the next minute.
Twice as long where notes are not quick, and clocks are those of the machines."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")


class FromScraper(msgspec.Struct, frozen=True, tag="scraper"):
    """The jobs of a scraper, from the registry of the folder in which a worker runs."""

    name: str

    def __str__(self) -> str:
        return f"scraper {self.name}"

    def here(self) -> tuple[Source, frozenset[str] | None]:
        """Where the jobs come from, and the only partitions there may be. `LongshoreError` where that is unknown."""
        # Only here: few workers ever start a run.
        from longshore.runs.scrapers.registry import find_scraper

        scraper = find_scraper(self.name)
        if scraper.jobs is None:
            raise NotFoundError(f"{self.name} has no source of jobs. Write one into its table in longshore.toml.")
        return scraper.jobs, frozenset(scraper.partitions) or None


class FromFile(msgspec.Struct, frozen=True, tag="file"):
    """A file, read anew for every run on the machine where the run is started."""

    path: str
    format: InputFormat

    def __str__(self) -> str:
        return self.path

    def here(self) -> tuple[Source, frozenset[str] | None]:
        """The file, if it is on this machine."""
        if not Path(self.path).is_file():
            raise NotFoundError(f"There is no file {self.path} here.")
        return InputFile(self.path, self.format), None


class FromList(msgspec.Struct, frozen=True, tag="list"):
    """A short list of jobs, kept with the schedule."""

    entries: tuple[InputEntry, ...]

    def __str__(self) -> str:
        return f"{len(self.entries):,} {'job' if len(self.entries) == 1 else 'jobs'}"

    def here(self) -> tuple[Source, frozenset[str] | None]:
        """The list itself."""
        return Generated(self.entries, "the schedule"), None


class Begun(msgspec.Struct, frozen=True):
    """A run whose jobs are being submitted."""

    instant: float
    """The time that was due."""
    run: str
    by: str
    """Who submits them: the incarnation of a worker."""
    seen: float
    """When that one last gave a sign."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What to submit, when, and how far that is."""

    when: Timetable
    what: FromScraper | FromFile | FromList
    kind: str
    """Which handler the jobs are for that do not say it themselves."""
    priority: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    limits: GrowthLimits = GrowthLimits()
    made: float = 0.0
    """No time before this counts."""
    last: float | None = None
    """The last time that counted."""
    last_run: str = ""
    last_jobs: int = 0
    """How many jobs that run was given."""
    trouble: str = ""
    """Why the last run could not be submitted, or not all of it."""
    begun: Begun | None = None

    @property
    def counted(self) -> float:
        """Only times after this are to have a run yet."""
        return self.made if self.last is None else max(self.last, self.made)

    def due(self, now: float) -> float | None:
        """The time that asks for a run now: the last that was missed, however many were. None where nothing is due."""
        return self.when.last(self.counted, now)

    def next(self, now: float) -> float:
        """The time of the next run that nobody has to ask for."""
        return self.when.after(max(now, self.counted))

    def plan(self, run: str, partitions: frozenset[str] | None) -> SubmissionPlan:
        """What its jobs become."""
        return SubmissionPlan(
            run=run, kind=self.kind, priority=self.priority, partitions=partitions, max_attempts=self.max_attempts
        )


class StoredSchedule(msgspec.Struct, frozen=True):
    """A schedule as it was read, with the note it was read from."""

    note: StateEntry
    schedule: Schedule


def run_id(name: str, instant: float) -> str:
    """The id of the run that a schedule starts for a time: the same whoever starts it, and however often."""
    return f"{name}_{datetime.fromtimestamp(instant, UTC).strftime('%Y%m%d_%H%M%S')}"


def kept(source: Source) -> FromList:
    """The jobs of a source as a list to keep. `UsageError` for one that is too long for that."""
    entries: list[InputEntry] = []
    size = 0
    for entry in source.entries():
        size += len(msgspec.json.encode(entry))
        if size > KEPT_BYTES:
            raise UsageError(
                f"{source.name} holds more than {KEPT_BYTES // 1024} KB of jobs, too much to be kept with a schedule. "
                "Name a file, which is read anew for every run, or a scraper."
            )
        entries.append(entry)
    if not entries:
        source.refuse_empty()
    return FromList(tuple(entries))


def keeping(queue: Queue) -> SharedState:
    """Return the shared state in which the queue keeps schedules. Raise `UsageError` for a medium without it."""
    return require(queue, SharedState, "cannot keep schedules. Use cron and `longshore start` instead.")


async def schedules(queue: SharedState) -> tuple[float, dict[str, StoredSchedule]]:
    """The time by the queue's clock, and its schedules by name. One of a newer Longshore is passed over."""
    read = await queue.read_entries(SHELF)
    return read.now, {note.name: found for note in read.entries if (found := shelved_in(note)) is not None}


async def schedule_of(queue: SharedState, name: str) -> tuple[float, StoredSchedule]:
    """The time by the queue's clock, and the schedule of this name. `NotFoundError` says which there are."""
    read = await queue.read_entries(SHELF, frozenset({name}))
    found = shelved_in(read.get(name))
    if found is None:
        raise await _missing(queue, name)
    return read.now, found


async def _missing(queue: SharedState, name: str) -> NotFoundError:
    known = sorted((await schedules(queue))[1])
    there = f"There are: {', '.join(known)}." if known else "There are none."
    return NotFoundError(f"There is no schedule '{name}'. {there}")


async def define(queue: SharedState, name: str, schedule: Schedule) -> Schedule:
    """Make a schedule, or give the one of that name another meaning, from now on. Returns it as it is kept."""
    check_name(name)

    async def change(note: StateEntry, now: float) -> object:
        before = shelved_in(note)
        new = msgspec.structs.replace(schedule, made=now)
        if before is not None:
            old = before.schedule
            # One that is still to come is of a clock that was wrong, and would hold up all runs until then.
            last = old.last if old.last is None or old.last <= now else None
            new = msgspec.structs.replace(
                new, last=last, last_run=old.last_run, last_jobs=old.last_jobs, begun=old.begun
            )
        return msgspec.to_builtins(new)

    return msgspec.convert((await update(queue, name, change)).after.value, Schedule)


async def remove(queue: SharedState, name: str) -> Schedule:
    """Take a schedule away; runs that it started stay. `NotFoundError` where there is none."""

    async def change(note: StateEntry, _: float) -> object:
        return UNCHANGED if shelved_in(note) is None else None

    removed = shelved_in((await update(queue, name, change)).before)
    if removed is None:
        raise await _missing(queue, name)
    return removed.schedule


async def update(queue: SharedState, name: str, change: Callable[[StateEntry, float], Awaitable[object]]) -> Update:
    """Change the note of a schedule, as `update_entry` does."""
    busy = QueueUnavailableError(f"The schedule {name} is being changed by too many at once. Try again.")
    return await update_entry(queue, SHELF, name, change, busy)


async def put(queue: SharedState, note: StateEntry, schedule: Schedule) -> bool:
    """Write a schedule in the place of what the note says. False where another was faster."""
    value = msgspec.to_builtins(schedule)
    return (await queue.swap_entries(SHELF, [msgspec.structs.replace(note, value=value)]))[0] is not None


def check_name(name: str) -> None:
    """`UsageError` for what cannot be a schedule's name; it becomes part of run ids."""
    if not _NAME.match(name):
        raise UsageError(
            f"'{name}' cannot be the name of a schedule: it is made of letters, digits, '.', '_' and '-', starts with "
            "a letter or digit, and has at most 80 characters."
        )


def shelved_in(note: StateEntry) -> StoredSchedule | None:
    """Return the schedule that a note holds; None if there is none, or one of a newer Longshore."""
    if note.version == ABSENT or not isinstance(note.value, Mapping):
        return None
    try:
        return StoredSchedule(note, msgspec.convert(note.value, Schedule))
    except (msgspec.ValidationError, LongshoreError):
        return None
