"""Prune jobs together with their records."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import msgspec

from longshore.extensions.record_store import JobInQueue
from longshore.job import FINISHED, Job
from longshore.media import open_records
from longshore.queue import Queue, Selection, each_job
from longshore.runs.control.bulk_action import BulkAction, BulkProgress, Note, change_pages, page_change
from longshore.runs.control.job_filter import JobFilter
from longshore.runs.control.prune import prune, with_entries
from longshore.runs.records.run_records import RecordsPlace
from longshore.scrape.records.removal import remove_records
from longshore.scrape.records.segment_lines import SUFFIX

_AT_ONCE = 1000


async def prune_with_records(place: RecordsPlace, queue: Queue, selection: Selection) -> int:
    """Prune as `prune` does, and remove the records of the pruned jobs from a place.

    The jobs go first: their records count no more from then on, even if the process dies before they are removed.
    Records that were made in another queue, from which the jobs came, stay: that queue may have the jobs, too.
    """
    if not _has_records(place):
        return await prune(queue, selection)
    states = FINISHED if selection.states is None else FINISHED & selection.states
    chosen = msgspec.structs.replace(selection, states=states)
    jobs = {job.id: _named(job.run, job.kind, job.key, job.queue, job.id) async for job in each_job(queue, chosen)}
    removed = await prune(queue, selection)
    if removed != len(jobs):
        await _leave_out_those_still_there(queue, jobs)
    await _remove(place, list(jobs.values()))
    return removed


async def prune_pages(
    place: RecordsPlace, queue: Queue, wanted: JobFilter, note: Note, stop: asyncio.Event
) -> BulkProgress:
    """Prune as `prune_with_records` does, page by page. `stop` ends it after the page under way."""
    jobs: dict[str, JobInQueue] = {}
    prune_page, keep = page_change(BulkAction.PRUNE, queue), _has_records(place)

    async def change(page: Sequence[Job]) -> int:
        removed = await prune_page(page)
        if keep:
            pruned = {job.id: _named(job.run, job.kind, job.key, job.queue, job.id) for job in page}
            if removed != len(page):
                await _leave_out_those_still_there(queue, pruned)
            jobs.update(pruned)
        return removed

    done = await with_entries(queue, wanted.selection, lambda: change_pages(queue, wanted, change, note, stop))
    if jobs:
        await _remove(place, list(jobs.values()))
    return done


def _has_records(place: RecordsPlace) -> bool:
    folder, database = place
    return database is not None or next(folder.glob(f"*{SUFFIX}"), None) is not None


async def _remove(place: RecordsPlace, gone: Sequence[JobInQueue]) -> None:
    folder, database = place
    if database is not None:
        await _remove_from_database(database, gone)
    elif gone:
        # Records of an earlier version name no queue.
        every = {*gone, *((*job[:3], "", job[4]) for job in gone)}
        await asyncio.to_thread(remove_records, folder, every)


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
