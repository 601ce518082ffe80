"""Read what a run has, wait for it, and export it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from datetime import timedelta
from typing import TYPE_CHECKING

from longshore.api.loops import each_of, wait_for
from longshore.api.run_name import run_id

if TYPE_CHECKING:
    from pathlib import Path

    from longshore.api.run_name import Run
    from longshore.job import Attempt, Job
    from longshore.queue import Count
    from longshore.runs.control.job_selection import Names
    from longshore.runs.export import Exported
    from longshore.runs.watch.run_end import RunEnd
    from longshore.stored import JsonObject


def items(run: Run, kind: str | None = None, *, queue: str | None = None) -> Iterator[JsonObject]:
    """Yield the items (records) that the handlers of a run emitted, of one kind or of all, each once.

    The run may still go on: items of the jobs that are completed by now. They are read as the loop goes on, so memory
    does not grow with their number. Raise `NotFoundError` if the queue does not have the run.
    """
    return each_of(lambda: _items(run_id(run), kind, queue))


async def _items(run: str, kind: str | None, queue: str | None) -> AsyncGenerator[JsonObject, None]:
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.runs.records.run_records import run_records
    from longshore.settings import resolve

    settings = resolve({"queue": queue})
    async with open_existing(settings) as opened:
        await counts_of(opened, run, settings)
        async for record in run_records(settings, opened, run).records(kind):
            yield record.data


def results(run: Run, *, queue: str | None = None) -> Iterator[Job]:
    """Yield the completed jobs of a run with `payload` and `result`, oldest first; those completed by now.

    Raise `NotFoundError` if the queue does not have the run.
    """
    from longshore.job import State

    return jobs(run, state=State.COMPLETED, queue=queue)


def jobs(
    run: Run | None = None,
    *,
    kind: Names | None = None,
    partition: Names | None = None,
    state: Names | None = None,
    error: str | None = None,
    queue: str | None = None,
) -> Iterator[Job]:
    """Yield all jobs that match, whole, oldest first; the same as `longshore jobs --limit 0`.

    `error` is a shell pattern for the type or the message of the last failure. Raise `NotFoundError` if the queue does
    not have the run.
    """
    from longshore.runs.control.job_selection import select_jobs

    name = None if run is None else run_id(run)
    chosen = select_jobs(run=name, kind=kind, partition=partition, state=state, error=error)

    async def found() -> AsyncGenerator[Job, None]:
        from longshore.queue import each_job
        from longshore.runs.open_queue import counts_of, open_existing
        from longshore.settings import resolve

        settings = resolve({"queue": queue})
        async with open_existing(settings) as opened:
            if name is not None:
                await counts_of(opened, name, settings)
            async for job in each_job(opened, chosen):
                yield job

    return each_of(found)


def stats(run: Run, *, queue: str | None = None) -> Count:
    """Return how many jobs of a run are `pending`, `claimed`, `completed`, `failed`, `cancelled` and `remaining`.

    Raise `NotFoundError` if the queue does not have the run.
    """
    return wait_for(_stats(run_id(run), queue))


async def _stats(run: str, queue: str | None) -> Count:
    import msgspec

    from longshore.queue import totals
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.settings import resolve

    settings = resolve({"queue": queue})
    async with open_existing(settings) as opened:
        return msgspec.structs.replace(totals(await counts_of(opened, run, settings)), run=run)


def status(run: Run | None = None, *, queue: str | None = None) -> list[Count]:
    """Return the counts of each run; with a run, of each of its kinds and partitions. It reads counters only.

    Raise `NotFoundError` if the queue does not have the run.
    """
    return wait_for(_status(None if run is None else run_id(run), queue))


async def _status(run: str | None, queue: str | None) -> list[Count]:
    from longshore.queue import totals_by
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.settings import resolve

    settings = resolve({"queue": queue})
    async with open_existing(settings) as opened:
        return totals_by(await opened.stats(), "run") if run is None else await counts_of(opened, run, settings)


def show(job: str, *, queue: str | None = None) -> tuple[Job, list[Attempt]]:
    """Return a job, whole, and its earlier attempts. Raise `NotFoundError` if the queue does not have it."""
    from longshore.runs.control.job_selection import find_job
    from longshore.settings import resolve

    return wait_for(find_job(resolve({"queue": queue}), job))


def wait(
    run: Run | None = None,
    *,
    timeout: float | timedelta | None = None,
    progress: bool = True,
    queue: str | None = None,
) -> RunEnd:
    """Watch a run until it ends, and return how it `ended` and its `count`; the same as `longshore wait`.

    Without a run, the newest one that is not finished. `timeout` is in seconds; when it is over, `ended` is `timeout`
    and the run goes on. Progress goes to standard error, unless `progress` is False. Raise `NotFoundError` if there is
    no such run.
    """
    seconds = timedelta(seconds=timeout) if isinstance(timeout, int | float) else timeout
    return wait_for(_wait(None if run is None else run_id(run), seconds, queue, progress=progress))


async def _wait(run: str | None, timeout: timedelta | None, queue: str | None, *, progress: bool) -> RunEnd:
    from longshore.clock import SystemClock
    from longshore.runs.estimate.forecast import Forecast
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.runs.watch.run_end import RunEnd, end_with, newest_unfinished
    from longshore.runs.watch.watcher import wait_for as watched
    from longshore.settings import resolve
    from longshore.ui.progress import console
    from longshore.ui.wait_view import wait_view

    settings, clock = resolve({"queue": queue}), SystemClock()
    async with open_existing(settings) as opened:
        name = run or await newest_unfinished(opened, settings)
        await counts_of(opened, name, settings)
        watch = Forecast(opened, name, clock)
        if progress:
            with wait_view(console(), f"run {name}") as view:
                ended, look = await watched(
                    watch, clock, lambda seen: view.show(seen, watch.blockers), view.say, timeout=timeout
                )
        else:
            ended, look = await watched(watch, clock, lambda _: None, lambda _: None, timeout=timeout)
        return RunEnd(name, await end_with(opened, name, ended), look.count)


def export(
    run: Run,
    out: str | Path,
    *,
    format: str | None = None,  # noqa: A002  the name of the option
    sorted: bool = False,  # noqa: A002  the name of the option
    records: str | bool = False,
    bare: bool = False,
    queue: str | None = None,
) -> Exported:
    """Write the results of a run to a file, and return how many rows it has; the same as `longshore export`.

    The name of the file says the format (.jsonl, .csv, .parquet, .sqlite), or `format` does. `records=True` writes the
    emitted records of all kinds, `records="item"` those of one; `bare` leaves out the columns of their jobs.
    """
    from longshore.errors import UsageError
    from longshore.runs.export import ExportOrder, format_of
    from longshore.runs.export.export_run import ExportRequest, export_run
    from longshore.settings import resolve

    if bare and not records:
        raise UsageError("bare belongs to records.")
    kind = "" if records is True else records or None
    order = ExportOrder.NAME if sorted else ExportOrder.AGE
    request = ExportRequest(run_id(run), str(out), format_of(str(out), format), order, kind, bare)
    return wait_for(export_run(resolve({"queue": queue}), request)).exported
