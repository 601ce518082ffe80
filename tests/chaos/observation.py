"""The final observation of a trial: what fresh handles of every reader show when nothing else uses the queue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from subprocess import CompletedProcess

from longshore.conformance.history.events import JobSeen, PastAttempt, QueueSeen, RecordSeen
from longshore.conformance.history.recording_queue import sorted_json
from longshore.extensions.find import find
from longshore.extensions.rejected import KeepsRejected
from longshore.extensions.traces import KeepsTraces
from longshore.job import Job
from longshore.media import exists, open_queue
from longshore.queue import Queue, Selection, each_job, totals

Command = Callable[..., CompletedProcess[str]]
"""Runs `longshore` with these arguments."""


def observe(name: str, url: str, command: Command, stored: dict[str, int] | None, *, drained: bool) -> QueueSeen:
    """Return what a queue shows: its jobs, counts and rejected files, and its records as `export` writes them."""
    seen = asyncio.run(_seen(name, url, drained=drained))
    runs = sorted({job.name[0] for job in seen.jobs})
    records = tuple(record for run in runs for record in _exported(run, url, command))
    return QueueSeen(
        queue=name,
        jobs=seen.jobs,
        counts=seen.counts,
        stored=stored,
        records=records,
        rejected=seen.rejected,
        keeps_records=seen.keeps_records,
        drained=drained,
    )


def _exported(run: str, url: str, command: Command) -> list[RecordSeen]:
    done = command("export", run, "--records", "--queue", url)
    if done.returncode:
        # A run without any record has none to export, and the command says so.
        assert "record" in done.stderr.lower(), done.stderr
        return []
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return [
        RecordSeen(name=(each["run"], each["job_kind"], each["key"]), epoch=0, data=sorted_json(each["data"]))
        for each in lines
    ]


async def _seen(name: str, url: str, *, drained: bool) -> QueueSeen:
    if not await exists(url):
        return QueueSeen(queue=name, jobs=(), counts={})
    queue = await open_queue(url)
    try:
        jobs = [await _job(queue, job) async for job in each_job(queue, Selection())]
        count = totals(await queue.stats())
        keeps, keeper = find(queue, KeepsRejected), find(queue, KeepsTraces)
        rejected = 0 if keeps is None else (await keeps.rejected()).count
    finally:
        await queue.close()
    states = ("pending", "claimed", "completed", "failed", "cancelled")
    counts = {state: getattr(count, state) for state in states}
    return QueueSeen(
        queue=name,
        jobs=tuple(jobs),
        counts=counts,
        rejected=rejected,
        keeps_records=keeper is not None,
        drained=drained,
    )


async def _job(queue: Queue, job: Job) -> JobSeen:
    history = await queue.history(job.id) if job.epoch else []
    return JobSeen(
        id=job.id,
        name=(job.run, job.kind, job.key),
        state=job.state.value,
        epoch=job.epoch,
        attempts=job.attempts,
        depth=job.depth,
        parent=None if job.parent is None else (job.parent.kind, job.parent.key),
        result=sorted_json(job.result),
        history=tuple(
            PastAttempt(epoch=each.epoch, error_type=each.failure.error_type, worker=each.worker) for each in history
        ),
    )
