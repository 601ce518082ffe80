"""`longshore prune`: remove finished jobs for good."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.cli.bulk_verb import ask_and_change

if TYPE_CHECKING:
    from longshore.extensions.record_store import JobInQueue
    from longshore.queue import Queue, Selection
    from longshore.settings import Settings

Unfinished = Annotated[
    bool, typer.Option("--unfinished", help="With --run: cancel its unfinished jobs first, so that the whole run goes.")
]


def prune(
    ids: Annotated[list[str] | None, typer.Argument(metavar="JOB", help="Jobs by their ids.")] = None,
    run: options.Run = None,
    kind: options.Kind = None,
    partition: options.Partition = None,
    state: options.StateOption = None,
    error: options.Error = None,
    older_than: options.OlderThan = None,
    unfinished: Unfinished = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", metavar="", help="Only say what would be removed.")] = False,
    yes: options.Yes = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Remove finished jobs with their results, records and history, archived ones too.

    Their pages and failure bundles on this machine go too, and the logs of runs of which nothing is left. Pending and
    claimed jobs stay, unless --unfinished is given. A removed job may be submitted again.
    """
    from longshore.cli.job_selection import narrowed, selection
    from longshore.errors import UsageError
    from longshore.runs.control.bulk_action import BulkAction
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    chosen = selection(
        ids=ids, run=run, kind=kind, partition=partition, state=state, error=error, older_than=older_than
    )
    if unfinished and (run is None or state is not None):
        raise UsageError("--unfinished removes jobs in every state: name the run with --run, and leave out --state.")
    if dry_run:
        asyncio.run(_say_what(settings, chosen if unfinished else narrowed(chosen, BulkAction.PRUNE)))
    elif not unfinished:
        asyncio.run(ask_and_change(BulkAction.PRUNE, _prune, settings, narrowed(chosen, BulkAction.PRUNE), yes=yes))
    else:
        asyncio.run(ask_and_change(BulkAction.PRUNE, _cancel_and_prune, settings, chosen, yes=yes))


async def _prune(settings: Settings, queue: Queue, chosen: Selection) -> int:
    from longshore.runs.records.prune_records import prune_with_records
    from longshore.runs.records.prune_traces import named_jobs, remove_traces
    from longshore.runs.records.run_records import RecordsPlace

    jobs = await named_jobs(queue, chosen)
    removed = await prune_with_records(RecordsPlace.of(settings), queue, chosen)
    still = {each[4] for each in await named_jobs(queue, chosen)} if removed != len(jobs) else frozenset[str]()
    jobs = [each for each in jobs if each[4] not in still]
    await asyncio.to_thread(remove_traces, *_places(settings), jobs, await _gone(queue, jobs))
    return removed


async def _say_what(settings: Settings, chosen: Selection) -> None:
    from longshore.runs.open_queue import open_existing
    from longshore.runs.records.prune_traces import named_jobs, remove_traces
    from longshore.ui.output import write
    from longshore.ui.words import counted, size_words

    async with open_existing(settings) as queue:
        jobs = await named_jobs(queue, chosen)
        runs = {each[0] for each in jobs}
        number: dict[str, int] = {}
        for each in jobs:
            number[each[0]] = number.get(each[0], 0) + 1
        gone = [run for run in runs if sum(count.total for count in await queue.stats(run)) == number[run]]
    traces = await asyncio.to_thread(remove_traces, *_places(settings), jobs, gone, dry=True)
    write(
        f"Would remove {counted(len(jobs), 'job')} with results, records and history; on this machine also the "
        f"pages of {counted(traces.pages, 'job')}, {counted(traces.bundles, 'failure bundle')} and the logs of "
        f"{counted(traces.logs, 'run')}: {size_words(traces.size)}."
    )


async def _gone(queue: Queue, jobs: Sequence[JobInQueue]) -> list[str]:
    return [run for run in {each[0] for each in jobs} if not await queue.stats(run)]


def _places(settings: Settings) -> tuple[Path, Path]:
    from longshore.runs.local.defaults import HOME

    return Path(settings.data_folder), HOME / "logs"


async def _cancel_and_prune(settings: Settings, queue: Queue, chosen: Selection) -> int:
    await queue.cancel(chosen)
    return await _prune(settings, queue, chosen)
