"""The records of a run in figures: kept and rejected, and the share of them that has each field. The records of a job.

Counting reads every completed job of the run, so it is done when someone asks, by one request at a time, and kept for a
while. The fields are those of the first `SAMPLED` records of each kind.
"""

from __future__ import annotations

import asyncio
from collections import Counter

import msgspec

from longshore.extensions.record_store import Record
from longshore.job import Job
from longshore.server.auth.access import Access
from longshore.server.served import Served

SAMPLED = 2000
_FIELDS = 40
_KEPT_SECONDS, _SHARE = 30.0, 50
"""Figures are kept for some seconds, and for this many times as long as counting took."""
_MOST_KEPT = 100
_SHOWN = 50
"""Records of one job that its page shows."""


class FieldShare(msgspec.Struct, frozen=True):
    """How many of the sampled records have a field with a value."""

    name: str
    present: int
    sampled: int


class RecordKind(msgspec.Struct, frozen=True, kw_only=True):
    """The records of one kind."""

    name: str
    kept: int
    rejected: dict[str, int]
    """By reason."""
    fields: tuple[FieldShare, ...]


class RunRecordFigures(msgspec.Struct, frozen=True, kw_only=True):
    """The records of a run."""

    kinds: tuple[RecordKind, ...]
    elsewhere: str
    """Advice for a run without records here."""


class JobRecords(msgspec.Struct, frozen=True):
    """The records of one job, in order."""

    shown: tuple[Record, ...]
    more: bool
    """Whether it has more than these."""


class RecordFigures:
    """The record figures of all runs, and the records of single jobs."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._counting = asyncio.Lock()
        self._kept: dict[tuple[str, tuple[str, ...] | None], tuple[float, RunRecordFigures]] = {}

    async def of(self, run: str, access: Access) -> RunRecordFigures:
        """Return the figures of a run, within the reach of a key."""
        if access.key.runs is not None and run not in access.key.runs:
            return RunRecordFigures(kinds=(), elsewhere="")
        name, clock = (run, access.key.kinds), self._served.clock
        async with self._counting:
            until, found = self._kept.get(name, (0.0, None))
            if found is None or clock.monotonic() >= until:
                began = clock.monotonic()
                found = await self._count(run, access)
                ended = clock.monotonic()
                if len(self._kept) >= _MOST_KEPT:
                    self._kept.pop(next(iter(self._kept)))
                self._kept[name] = (ended + max(_KEPT_SECONDS, _SHARE * (ended - began)), found)
            return found

    async def of_job(self, job: Job) -> JobRecords:
        """Return the first records of a job."""
        found: list[Record] = []
        async with self._counting:  # it reads the records of the whole run to find those of one job
            async for record in self._served.traces.records(self._served.queue, job.run, None, job.id).records():
                found.append(record)
                if len(found) > _SHOWN:
                    break
        return JobRecords(tuple(found[:_SHOWN]), len(found) > _SHOWN)

    async def _count(self, run: str, access: Access) -> RunRecordFigures:
        kinds = None if access.key.kinds is None else frozenset(access.key.kinds)
        records = self._served.traces.records(self._served.queue, run, kinds)
        tally = await records.tally()
        found = []
        for kind in sorted(tally.kept.keys() | tally.rejected.keys()):
            present, sampled = Counter[str](), 0
            if tally.kept.get(kind):
                async for record in records.records(kind):
                    sampled += 1
                    if isinstance(record.data, dict):
                        present.update(name for name, value in record.data.items() if value not in (None, "", [], {}))
                        present.update(dict.fromkeys(record.data, 0))
                    if sampled == SAMPLED:
                        break
            fields = tuple(FieldShare(name, number, sampled) for name, number in list(present.items())[:_FIELDS])
            rejected = tally.rejected.get(kind, {})
            found.append(RecordKind(name=kind, kept=tally.kept.get(kind, 0), rejected=rejected, fields=fields))
        return RunRecordFigures(kinds=tuple(found), elsewhere=records.elsewhere)
