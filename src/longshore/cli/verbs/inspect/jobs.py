"""`longshore jobs`: list jobs."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from longshore.job import Job
    from longshore.queue import Queue, Selection
    from longshore.settings import Settings


def jobs(
    run: options.Run = None,
    kind: options.Kind = None,
    partition: options.Partition = None,
    state: options.StateOption = None,
    error: options.Error = None,
    limit: Annotated[int, typer.Option(metavar="N", help="The most jobs to list; 0 is all.")] = 50,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """List jobs, oldest first. --json prints whole jobs, with payload and result."""
    from longshore.cli.job_selection import selection
    from longshore.settings import resolve

    if limit < 0:
        raise UsageError(f"--limit cannot be {limit}: it takes 0 for all, or how many to list.")
    settings = resolve({"queue": queue, "debug": debug})
    chosen = selection(run=run, kind=kind, partition=partition, state=state, error=error)
    asyncio.run(_jobs(settings, chosen, limit, json=json))


async def _jobs(settings: Settings, chosen: Selection, limit: int, *, json: bool) -> None:
    from longshore.runs.open_queue import counts_of, open_existing

    async with open_existing(settings) as queue:
        if chosen.run is not None:
            await counts_of(queue, chosen.run, settings)
        await (_write_json if json else _write_table)(_first(queue, chosen, limit), limit)


async def _first(queue: Queue, chosen: Selection, limit: int) -> AsyncIterator[Job]:
    """Yield the first `limit` jobs and one more, which shows that there are more."""
    from longshore.queue import each_job

    number = 0
    async for job in each_job(queue, chosen, page=min(limit + 1, 1000) if limit else 1000):
        yield job
        number += 1
        if limit and number > limit:
            return


async def _write_json(found: AsyncIterator[Job], limit: int) -> None:
    """Write an array job by job, so that a million jobs need no more memory than ten."""
    import msgspec

    from longshore.system.printable import printable_json

    encoder = msgspec.json.Encoder()
    number = 0
    sys.stdout.write("[")
    async for job in found:
        if limit and number == limit:
            break
        sys.stdout.write(("," if number else "") + "\n" + printable_json(encoder.encode(job).decode()))
        number += 1
    sys.stdout.write("\n]\n" if number else "]\n")


async def _write_table(found: AsyncIterator[Job], limit: int) -> None:
    from longshore.runs.watch.failures import short_message, subject
    from longshore.ui.counts import NO_RUN
    from longshore.ui.output import note, write
    from longshore.ui.tables import write_table
    from longshore.ui.words import one_line

    rows: list[tuple[str, ...]] = []
    more = False
    async for job in found:
        if limit and len(rows) == limit:
            more = True
            break
        failed = job.failure
        failure = one_line(f"{failed.error_type}: {short_message(job, failed)}", 100) if failed else ""
        tries = f"{job.attempts}/{job.max_attempts}"
        rows.append((job.id, job.run or NO_RUN, job.kind, job.state.value, tries, one_line(subject(job), 60), failure))
    if not rows:
        write("No such jobs.")
        return
    columns: tuple[str, ...] = ("id", "run", "kind", "state", "tries", "what", "last failure")
    if len({row[1] for row in rows}) == 1 and sys.stdout.isatty():
        # A value that is the same on every line is left out: a terminal is narrow.
        columns = (columns[0], *columns[2:])
        rows = [(row[0], *row[2:]) for row in rows]
    write_table(columns, rows, right=("id", "tries"), cut=("what", "last failure"))
    if more:
        note(f"There are more than {limit}; --limit 0 lists all.")
