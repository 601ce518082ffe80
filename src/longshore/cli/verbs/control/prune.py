"""`longshore prune`: remove finished jobs for good."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.cli.bulk_verb import ask_and_change

if TYPE_CHECKING:
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
    yes: options.Yes = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Remove finished jobs with their results, records and history, archived ones too.

    Pending and claimed jobs stay, unless --unfinished is given. A removed job may be submitted again.
    """
    from longshore.cli.job_selection import narrowed, selection
    from longshore.errors import UsageError
    from longshore.runs.control.bulk_action import BulkAction
    from longshore.settings import resolve

    settings = resolve({"queue": queue, "debug": debug})
    chosen = selection(
        ids=ids, run=run, kind=kind, partition=partition, state=state, error=error, older_than=older_than
    )
    if not unfinished:
        asyncio.run(ask_and_change(BulkAction.PRUNE, _prune, settings, narrowed(chosen, BulkAction.PRUNE), yes=yes))
    elif run is None or state is not None:
        raise UsageError("--unfinished removes jobs in every state: name the run with --run, and leave out --state.")
    else:
        asyncio.run(ask_and_change(BulkAction.PRUNE, _cancel_and_prune, settings, chosen, yes=yes))


async def _prune(settings: Settings, queue: Queue, chosen: Selection) -> int:
    from longshore.runs.records.prune_records import prune_with_records
    from longshore.runs.records.run_records import RecordsPlace

    return await prune_with_records(RecordsPlace.of(settings), queue, chosen)


async def _cancel_and_prune(settings: Settings, queue: Queue, chosen: Selection) -> int:
    await queue.cancel(chosen)
    return await _prune(settings, queue, chosen)
