"""The records of a run: those on disk, of which the queue says which count."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from longshore.job import State
from longshore.queue import Queue, Selection
from longshore.scrape.records import RecordSink, Survey, Undecided

_AT_ONCE = 1000


class KeepsRecords(RecordSink, Protocol):
    """A sink that knows which attempts have no mark."""

    async def unsettled(self) -> Sequence[tuple[str, str, str, str, int]]:
        """Run, kind, key, job and epoch of each."""


async def surveyed(queue: Queue, folder: Path, *, run: str | None = None) -> Survey:
    """The records of a folder, every attempt decided: `surveyed(...).records()` goes through those that count.

    Most attempts are marked as settled beside their records. Only of those that are not, the queue is asked.
    """
    survey = await asyncio.to_thread(Survey, folder, run=run)
    open_ones = survey.undecided
    for start in range(0, len(open_ones), _AT_ONCE):
        survey.decide(await _settled(queue, open_ones[start : start + _AT_ONCE]))
    return survey


async def mark_settled(queue: Queue, records: KeepsRecords) -> int:
    """Mark, in a database of records, the attempts whose worker died before it could. Returns how many.

    It is those that the queue has completed at their very epoch. A live worker's may be among them: it does no harm.
    """
    open_ones = [Undecided(*attempt) for attempt in await records.unsettled()]
    marked = 0
    for start in range(0, len(open_ones), _AT_ONCE):
        for attempt in await _settled(queue, open_ones[start : start + _AT_ONCE]):
            records.settled(attempt.job, attempt.epoch)
            marked += 1
    await records.flush()
    return marked


async def _settled(queue: Queue, attempts: Sequence[Undecided]) -> list[Undecided]:
    ids = frozenset(attempt.job for attempt in attempts)
    selection = Selection(ids=ids, states=frozenset({State.COMPLETED}))
    completed = await queue.jobs(selection, limit=len(ids))
    # By name too: the records may be of another queue, where the same id means another job.
    settled = {Undecided(job.run, job.kind, job.key, job.id, job.epoch) for job in completed}
    return [attempt for attempt in attempts if attempt in settled]
