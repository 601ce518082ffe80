"""Prune jobs together with their records."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

from longshore.extensions.record_store import JobInQueue
from longshore.job import FINISHED
from longshore.media import open_records
from longshore.queue import Queue, Selection, each_job
from longshore.runs.control.prune import prune
from longshore.scrape.records.removal import remove_records
from longshore.scrape.records.segment_lines import SUFFIX
from longshore.settings import Settings

_AT_ONCE = 1000


async def prune_with_records(settings: Settings, queue: Queue, selection: Selection) -> int:
    """Prune as `prune` does, and remove the records of the pruned jobs from the place that the settings name.

    The jobs go first: their records count no more from then on, even if the process dies before they are removed.
    Records that were made in another queue, from which the jobs came, stay: that queue may have the jobs, too.
    """
    folder = Path(settings.data_folder) / "records"
    if settings.records_database is None and next(folder.glob(f"*{SUFFIX}"), None) is None:
        return await prune(queue, selection)
    states = FINISHED if selection.states is None else FINISHED & selection.states
    chosen = msgspec.structs.replace(selection, states=states)
    jobs = {job.id: _named(job.run, job.kind, job.key, job.queue, job.id) async for job in each_job(queue, chosen)}
    removed = await prune(queue, selection)
    if removed != len(jobs):
        await _leave_out_those_still_there(queue, jobs)
    gone = list(jobs.values())
    if settings.records_database is not None:
        await _remove_from_database(settings.records_database, gone)
    else:
        # Records of an earlier version name no queue.
        await asyncio.to_thread(remove_records, folder, {*gone, *((*job[:3], "", job[4]) for job in gone)})
    return removed


async def _leave_out_those_still_there(queue: Queue, jobs: dict[str, JobInQueue]) -> None:
    ids = list(jobs)
    for start in range(0, len(ids), _AT_ONCE):
        for job in await queue.jobs(Selection(ids=frozenset(ids[start : start + _AT_ONCE])), limit=_AT_ONCE):
            del jobs[job.id]


async def _remove_from_database(url: str, gone: Sequence[JobInQueue]) -> None:
    store = await open_records(url)
    try:
        for start in range(0, len(gone), _AT_ONCE):
            await store.remove(gone[start : start + _AT_ONCE])
    finally:
        await store.close()


def _named(run: str, kind: str, key: str, queue: str, job_id: str) -> JobInQueue:
    # A million jobs share these texts.
    return sys.intern(run), sys.intern(kind), key, sys.intern(queue), job_id
