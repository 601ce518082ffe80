"""Schedules: runs that workers start at certain times. Each is one entry of the queue's shared state.

An entry says what to submit and when, which time was the last to be handled, and, while jobs are being submitted, which
worker submits them. The worker whose compare-and-swap writes that a due run begins submits the run; see `trigger`.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, TypeAlias

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
from longshore.stored import LATEST, UNFIT
from longshore.wrappers.growth_limits import GrowthLimits

NAMESPACE = "schedules"
KEPT_BYTES = 64 * 1024
"""Largest list of jobs that an entry stores: every worker reads the entry with every poll."""
SILENT_SECONDS = 45.0
"""Seconds without a heartbeat after which another worker takes over a run that is being submitted: less than a minute,
so that the next minute's run is on time. Doubled on media with slow shared state, whose times come from the machines'
clocks."""
_Instant: TypeAlias = Annotated[float, msgspec.Meta(ge=0, le=LATEST / 2)]
"""An instant whose calendar can be calculated fifty years ahead: others may write to the queue."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")


class FromScraper(msgspec.Struct, frozen=True, tag="scraper"):
    """The jobs of a scraper, from the registry of the folder in which a worker runs."""

    name: str

    def __str__(self) -> str:
        return f"scraper {self.name}"

    def here(self) -> tuple[Source, frozenset[str] | None]:
        """Return the source of the jobs and the allowed partitions. Raise `LongshoreError` if it is unknown here."""
        # Imported here because few workers ever start a run.
        from longshore.runs.scrapers.registry import find_scraper

        scraper = find_scraper(self.name)
        if scraper.jobs is None:
            raise NotFoundError(f"{self.name} has no source of jobs. Write one into its table in longshore.toml.")
        return scraper.jobs, frozenset(scraper.partitions) or None


class FromFile(msgspec.Struct, frozen=True, tag="file"):
    """A file, read for every run on the machine that starts the run.

    Everyone who may write to the queue can write a path here, so a worker reads the file only if its own
    `longshore.toml` names it too.
    """

    path: str
    format: InputFormat

    def __str__(self) -> str:
        return self.path

    def here(self) -> tuple[Source, frozenset[str] | None]:
        """Return the file, with any partition allowed.

        Raise `NotFoundError` if it is not on this machine, or if no scraper in `longshore.toml` has it as its source.
        """
        # Imported here because few workers ever start a run.
        from longshore.runs.scrapers.registry import load_scrapers

        asked = Path(self.path).resolve()
        sources = (scraper.jobs for scraper in load_scrapers().values())
        if not any(isinstance(each, InputFile) and Path(each.path).resolve() == asked for each in sources):
            raise NotFoundError(
                f"The schedule names the file {self.path}, and no scraper in longshore.toml here does. A queue may not "
                "tell a worker which files to read. Write a scraper with this file as its source, or schedule a list."
            )
        if not asked.is_file():
            raise NotFoundError(f"There is no file {self.path} here.")
        return InputFile(self.path, self.format), None


class FromList(msgspec.Struct, frozen=True, tag="list"):
    """A short list of jobs, stored with the schedule."""

    entries: tuple[InputEntry, ...]

    def __str__(self) -> str:
        return f"{len(self.entries):,} {'job' if len(self.entries) == 1 else 'jobs'}"

    def here(self) -> tuple[Source, frozenset[str] | None]:
        """Return the list, with any partition allowed."""
        return Generated(self.entries, "the schedule"), None


class Begun(msgspec.Struct, frozen=True):
    """A run whose jobs are being submitted."""

    instant: _Instant
    """The time that was due."""
    run: str
    by: str
    """Incarnation of the worker that submits them."""
    seen: _Instant
    """Time of that worker's last heartbeat."""


class Schedule(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A schedule: what to submit, when, and the state of its last run."""

    when: Timetable
    what: FromScraper | FromFile | FromList
    kind: str
    """The handler for jobs that name none."""
    priority: int = 0
    max_attempts: int = DEFAULT_MAX_ATTEMPTS
    limits: GrowthLimits = GrowthLimits()
    identities: dict[str, tuple[str, ...]] = {}
    """The payload fields that make jobs different, by kind."""
    made: _Instant = 0.0
    """Times before this are ignored."""
    last: _Instant | None = None
    """The last scheduled time for which a run was submitted."""
    last_run: str = ""
    last_jobs: int = 0
    """Number of jobs of that run's source."""
    trouble: str = ""
    """Why jobs of the last run were not submitted, without any content of their source; empty if all were."""
    begun: Begun | None = None

    @property
    def counted(self) -> float:
        """Only times after this one still need a run."""
        return self.made if self.last is None else max(self.last, self.made)

    def due(self, now: float) -> float | None:
        """Return the latest missed time, for which a run is due now; None if no run is due.

        Several missed times make only one run.
        """
        return self.when.last(self.counted, now)

    def next(self, now: float) -> float:
        """Return the next time in the timetable."""
        return self.when.after(max(now, self.counted))

    def plan(self, run: str, partitions: frozenset[str] | None) -> SubmissionPlan:
        """Return the plan by which its entries become jobs of `run`."""
        return SubmissionPlan(
            run=run,
            kind=self.kind,
            priority=self.priority,
            partitions=partitions,
            max_attempts=self.max_attempts,
            identities=self.identities,
        )


class StoredSchedule(msgspec.Struct, frozen=True):
    """A schedule with the entry it was read from."""

    note: StateEntry
    schedule: Schedule


def run_id(name: str, instant: float) -> str:
    """Return the id of the run for a scheduled time. It depends on nothing else, so repeated starts are one run."""
    return f"{name}_{datetime.fromtimestamp(instant, UTC).strftime('%Y%m%d_%H%M%S')}"


def kept(source: Source) -> FromList:
    """Return the jobs of a source as a list that is stored with the schedule. Raise `UsageError` if it is too long."""
    entries: list[InputEntry] = []
    size = 0
    for entry in source.entries():
        size += len(msgspec.json.encode(entry))
        if size > KEPT_BYTES:
            raise UsageError(
                f"{source.name} holds more than {KEPT_BYTES // 1024} KB of jobs, too much to be kept with a schedule. "
                "Write a scraper with this file into longshore.toml, and schedule the scraper."
            )
        entries.append(entry)
    if not entries:
        source.refuse_empty()
    return FromList(tuple(entries))


def keeping(queue: Queue) -> SharedState:
    """Return the shared state in which the queue keeps schedules. Raise `UsageError` for a medium without it."""
    return require(queue, SharedState, "cannot keep schedules. Use cron and `longshore start` instead.")


async def schedules(queue: SharedState) -> tuple[float, dict[str, StoredSchedule]]:
    """Return the time by the queue's clock, and the schedules by name. Those of a newer Longshore are left out."""
    read = await queue.read_entries(NAMESPACE)
    return read.now, {entry.name: found for entry in read.entries if (found := stored_schedule(entry)) is not None}


async def schedule_of(queue: SharedState, name: str) -> tuple[float, StoredSchedule]:
    """Return the time by the queue's clock, and the schedule of this name.

    Raise `NotFoundError`, which lists the known schedules.
    """
    read = await queue.read_entries(NAMESPACE, frozenset({name}))
    found = stored_schedule(read.get(name))
    if found is None:
        raise await _missing(queue, name)
    return read.now, found


async def _missing(queue: SharedState, name: str) -> NotFoundError:
    known = sorted((await schedules(queue))[1])
    there = f"There are: {', '.join(known)}." if known else "There are none."
    return NotFoundError(f"There is no schedule '{name}'. {there}")


async def define(queue: SharedState, name: str, schedule: Schedule) -> Schedule:
    """Create or replace the schedule of that name, effective from now. Return it as stored."""
    check_name(name)

    async def change(note: StateEntry, now: float) -> object:
        before = stored_schedule(note)
        new = msgspec.structs.replace(schedule, made=now)
        if before is not None:
            old = before.schedule
            # A last time in the future comes from a wrong clock, and would block all runs until then.
            last = old.last if old.last is None or old.last <= now else None
            new = msgspec.structs.replace(
                new, last=last, last_run=old.last_run, last_jobs=old.last_jobs, begun=old.begun
            )
        return msgspec.to_builtins(new)

    return msgspec.convert((await update(queue, name, change)).after.value, Schedule)


async def remove(queue: SharedState, name: str) -> Schedule:
    """Remove a schedule and return it; the runs it started stay. Raise `NotFoundError` if there is none."""

    async def change(note: StateEntry, _: float) -> object:
        return UNCHANGED if stored_schedule(note) is None else None

    removed = stored_schedule((await update(queue, name, change)).before)
    if removed is None:
        raise await _missing(queue, name)
    return removed.schedule


async def update(queue: SharedState, name: str, change: Callable[[StateEntry, float], Awaitable[object]]) -> Update:
    """Change the entry of a schedule, as `update_entry` does."""
    busy = QueueUnavailableError(f"Too many processes change the schedule {name} at the same time. Try again.")
    return await update_entry(queue, NAMESPACE, name, change, busy)


async def put(queue: SharedState, note: StateEntry, schedule: Schedule) -> bool:
    """Replace the schedule in the entry. Return False if another process changed the entry first."""
    value = msgspec.to_builtins(schedule)
    return (await queue.swap_entries(NAMESPACE, [msgspec.structs.replace(note, value=value)]))[0] is not None


def check_name(name: str) -> None:
    """Raise `UsageError` if this cannot be a schedule's name, which becomes part of run ids."""
    if not _NAME.match(name):
        raise UsageError(
            f"'{name}' cannot be the name of a schedule: it is made of letters, digits, '.', '_' and '-', starts with "
            "a letter or digit, and has at most 80 characters."
        )


def stored_schedule(note: StateEntry) -> StoredSchedule | None:
    """Return the schedule in an entry; None if there is none, or one of a newer Longshore."""
    if note.version == ABSENT or not isinstance(note.value, Mapping):
        return None
    try:
        return StoredSchedule(note, msgspec.convert(note.value, Schedule))
    except (*UNFIT, LongshoreError):
        return None
