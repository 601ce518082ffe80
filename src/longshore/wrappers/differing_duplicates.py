"""Differing duplicates: jobs that were left out because their name was taken, although their payload is another one.

A job with a URL is known by that URL alone, so that a crawl does not run a page once for each page that links to it.
If other fields make jobs different (the page of a search form), jobs are lost without an error. So every process that
adds jobs compares those whose key is only the default one with the job that has the name, and counts the differences
in a shared entry of the run, by kind and by field. Jobs with a declared identity or their own key are not compared.

The comparison comes after the answer of the queue, beside the work: it delays no settlement. The first difference of a
run is stored at once, so that it is known when the run ends; later ones every few seconds. A process that is killed
leaves out its last seconds, so the count is a lower bound.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueError
from longshore.extensions.find import find
from longshore.extensions.payloads import PayloadLookup
from longshore.extensions.shared_state import SharedState, StateEntry, update_entry
from longshore.job import JobName, NewJob
from longshore.outcome import Completed, Settlement
from longshore.queue import Queue, SettleAnswers
from longshore.stored import UNFIT, JsonObject
from longshore.system.first_of import first_of
from longshore.wrappers.growth_limits import decode_entry
from longshore.wrappers.queue_wrapper import QueueWrapper

DIFFERING = "runs-differing"
"""The namespace with an entry for each run that left out jobs whose payloads differ."""
_TELL_SECONDS = 5.0
_AT_ONCE = 1000
"""Jobs that wait for their comparison before it is made without waiting any longer."""
_MOST_WAITING = 10_000
_MOST_KINDS, _MOST_FIELDS, _LONGEST_NAME = 20, 12, 60
"""Names that are stored for a run. A payload whose field names are data would fill the entry."""


class DifferingKind(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one kind that were left out although their payloads differ."""

    jobs: int = 0
    fields: dict[str, int] = {}
    """The fields that differed, with the number of jobs."""


class DifferingDuplicates(msgspec.Struct, frozen=True, kw_only=True):
    """The jobs of one run that were left out as duplicates although their payloads differ, by kind."""

    kinds: dict[str, DifferingKind] = {}

    @property
    def jobs(self) -> int:
        """The number of jobs that were left out."""
        return sum(each.jobs for each in self.kinds.values())

    def __bool__(self) -> bool:
        return bool(self.kinds)

    def __add__(self, other: DifferingDuplicates) -> DifferingDuplicates:
        kinds = dict(self.kinds)
        for kind, more in other.kinds.items():
            known = kinds.get(kind)
            if known is None and len(kinds) >= _MOST_KINDS:
                continue
            fields = Counter(known.fields if known else {}) + Counter(more.fields)
            kinds[kind] = DifferingKind(
                jobs=(known.jobs if known else 0) + more.jobs, fields=dict(fields.most_common(_MOST_FIELDS))
            )
        return DifferingDuplicates(kinds=kinds)


class DuplicateComparison:
    """Compares added jobs with those that have their names, and counts the differences of each run."""

    def __init__(self, queue: Queue) -> None:
        self._lookup = find(queue, PayloadLookup)
        self._state = find(queue, SharedState)
        self._waiting: defaultdict[str, list[NewJob]] = defaultdict(list)
        self._uncounted: dict[str, DifferingDuplicates] = {}
        self._reported: set[str] = set()
        self._stored: set[str] = set()

    @property
    def waiting(self) -> int:
        """The number of jobs that wait for their comparison."""
        return sum(map(len, self._waiting.values()))

    def note(self, run: str, jobs: Iterable[NewJob]) -> None:
        """Remember those jobs for the next comparison whose payload could differ from that of a job with their name."""
        if self._lookup is None:
            return
        comparable = [job for job in jobs if len(job.payload) > 1 and job.default_key and "url" in job.payload]
        if comparable and self.waiting < _MOST_WAITING:
            self._waiting[run] += comparable

    async def compare(self) -> Mapping[str, DifferingDuplicates]:
        """Compare the jobs that wait, and return the differences of each run. Raise what the queue raises."""
        found: dict[str, DifferingDuplicates] = {}
        # Taken out first: more may come while the queue answers.
        for run in list(self._waiting):
            jobs = self._waiting.pop(run, [])
            try:
                differing = await self._differing(run, jobs)
            except BaseException:
                self._waiting[run] += jobs
                raise
            if differing:
                found[run] = differing
                self._add(run, differing)
        return found

    async def store(self, *, only_first: bool = False) -> None:
        """Add what was found to the entries of the runs. Raise what the queue raises; the next call repeats it.

        `only_first` leaves out runs to which something was added before.
        """
        for run in list(self._uncounted):
            if (only_first and run in self._stored) or self._state is None:
                continue
            differing = self._uncounted.pop(run, DifferingDuplicates())
            try:
                await add_differing(self._state, run, differing)
            except BaseException:
                self._add(run, differing)
                raise
            self._stored.add(run)

    async def tell(self, *, only_first: bool = False) -> None:
        """Compare, then log and store what was found since the last call. If that fails, the next call repeats it."""
        # Imported here to keep start-up quick for commands that only read the state of a run.
        import structlog

        log = structlog.get_logger()
        try:
            for run, differing in (await self.compare()).items():
                if run not in self._reported:
                    self._reported.add(run)
                    log.warning(
                        f"Jobs are left out as duplicates although their payloads differ. {advice(differing)}",
                        run=run,
                        jobs=differing.jobs,
                    )
            await self.store(only_first=only_first)
        except QueueError as error:
            log.debug("Counting the jobs left out as duplicates failed; it is repeated", error=str(error))

    def _add(self, run: str, differing: DifferingDuplicates) -> None:
        self._uncounted[run] = self._uncounted.get(run, DifferingDuplicates()) + differing

    async def _differing(self, run: str, jobs: Sequence[NewJob]) -> DifferingDuplicates:
        if self._lookup is None:
            return DifferingDuplicates()
        names = list(dict.fromkeys((job.kind, job.key) for job in jobs))
        there = dict(zip(names, await self._lookup.payloads(run, [JobName(*name) for name in names]), strict=True))
        numbers: Counter[str] = Counter()
        fields: defaultdict[str, Counter[str]] = defaultdict(Counter)
        for job in jobs:
            stored = there[job.kind, job.key]
            if stored is not None and (names_of := differing_fields(job.payload, stored)):
                numbers[job.kind] += 1
                fields[job.kind].update(name[:_LONGEST_NAME] for name in names_of)
        each = {kind: DifferingKind(jobs=number, fields=dict(fields[kind])) for kind, number in numbers.items()}
        # Added to nothing, so that the bounds of an entry hold.
        return DifferingDuplicates() + DifferingDuplicates(kinds=each)


class DuplicateComparingQueue(QueueWrapper):
    """A queue whose `settle` has the accepted follow-on jobs compared with the jobs that have their names."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        super().__init__(queue)
        self._clock = clock
        self._comparison = DuplicateComparison(queue)
        # On a slow medium a comparison costs seconds, so it is made only every few seconds.
        self._at_once = queue.traits.quick_shared_state
        self._noted = asyncio.Event()

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        """Settle, and remember the follow-on jobs that were left out; all of them, if the medium does not say which."""
        accepted = await self._queue.settle(settlements)
        if isinstance(accepted, SettleAnswers):
            for job in accepted.duplicates:
                self._comparison.note(job.run, (job,))
        else:
            for place, settlement in enumerate(settlements):
                outcome = settlement.outcome
                if isinstance(outcome, Completed) and outcome.jobs and accepted[place]:
                    self._comparison.note(settlement.lease.job.run, outcome.jobs)
        waiting = self._comparison.waiting
        if waiting >= _AT_ONCE:
            await self._comparison.tell(only_first=True)
        elif waiting and self._at_once:
            self._noted.set()
        return accepted

    async def keep(self) -> None:
        """Compare as soon as there is something to compare, and count every few seconds, until cancelled."""
        stored = self._clock.monotonic()
        while True:
            left = stored + _TELL_SECONDS - self._clock.monotonic()
            if left <= 0:
                stored = self._clock.monotonic()
                await self.tell()
                continue
            if await first_of(self._noted.wait(), self._clock.sleep(left)) is not None:
                self._noted.clear()
                await self._comparison.tell(only_first=True)

    async def tell(self) -> None:
        """Log and count the differing duplicates since the last call."""
        await self._comparison.tell()


def differing_fields(given: JsonObject, stored: JsonObject) -> list[str]:
    """Return the names of the fields in which two payloads with the same URL differ; spellings of the URL do not."""
    if given == stored:
        return []
    try:
        # As it would be stored: a tuple is a list there.
        given = msgspec.json.decode(msgspec.json.encode(given))
    except UNFIT:
        return []
    missing = object()
    return sorted(
        name
        for name in given.keys() | stored.keys()
        if name != "url" and given.get(name, missing) != stored.get(name, missing)
    )


def advice(differing: DifferingDuplicates) -> str:
    """Return which fields differed, and how to say whether they make jobs different."""
    kind, most = max(differing.kinds.items(), key=lambda item: item[1].jobs)
    fields = list(most.fields)
    shown = ", ".join(fields[:3]) + (f" and {len(fields) - 3} more" if len(fields) > 3 else "")
    identity = ", ".join(f'"{name}"' for name in ("url", *fields[:3]))
    return (
        f"They share a URL and differ in: {shown}. If that makes them different jobs, declare it: "
        f'@handler("{kind}", identity=({identity})). If not, identity=("url",) ends this notice'
    )


async def differing_of(state: SharedState, run: str | None) -> dict[str, DifferingDuplicates]:
    """Return the differing duplicates of a run, or of every run that has some, as far as they have been counted."""
    entries = (await state.read_entries(DIFFERING, None if run is None else frozenset({run}))).entries
    found = {entry.name: decode_entry(entry, DifferingDuplicates) for entry in entries}
    return {name: differing for name, differing in found.items() if differing}


async def add_differing(state: SharedState, run: str, differing: DifferingDuplicates) -> None:
    """Add to the differing duplicates of a run. Raise `QueueError` if other writers were faster every time."""

    async def add(entry: StateEntry, _: float) -> object:
        return msgspec.to_builtins(decode_entry(entry, DifferingDuplicates) + differing)

    busy = QueueError(f"Too many processes count the duplicates of run {run} at the same time.")
    await update_entry(state, DIFFERING, run, add, busy)
