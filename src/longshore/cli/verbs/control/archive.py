"""`longshore archive`: move completed jobs to the archive, on a medium that has one."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.extensions.archive import Month
    from longshore.queue import Selection
    from longshore.settings import Settings

_OLD = "30d"


def archive(
    older_than: Annotated[
        str, typer.Option(metavar="AGE", help="Pack completed jobs that were settled this long ago: 12h, 7d, 30d.")
    ] = _OLD,
    run: options.Run = None,
    kind: options.Kind = None,
    partition: options.Partition = None,
    error: options.Error = None,
    yes: options.Yes = False,
    stats: Annotated[bool, typer.Option("--stats", metavar="", help="Change nothing; print what is archived.")] = False,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Move old completed jobs to the archive, drop the old history, and print the contents of the archive.

    Archived jobs are still counted, listed and known as duplicates; `longshore prune` removes them. Workers may run
    meanwhile. The command asks first if it has a terminal; nothing is lost in any case. Only completed jobs are packed,
    which have no error: --error selects none.
    """
    from longshore.cli.job_selection import selection
    from longshore.settings import resolve
    from longshore.ui.output import write, write_json

    settings = resolve({"queue": queue, "debug": debug})
    chosen = selection(run=run, kind=kind, partition=partition, state="completed", error=error, older_than=older_than)
    packed, months = asyncio.run(_archive(settings, None if stats else chosen, yes=yes))
    if json:
        write_json(_facts(packed, months))
        return
    if packed is not None:
        write(_result_words(packed, chosen, older_than))
    _show(months)


async def _archive(settings: Settings, chosen: Selection | None, *, yes: bool) -> tuple[int | None, list[Month]]:
    """Return how many jobs were packed now (None if nothing was to be packed), and the contents of the archive."""
    from longshore.cli.job_selection import agreed
    from longshore.runs.control.archive import archive_of, pack
    from longshore.runs.control.job_selection import selected_number
    from longshore.runs.open_queue import counts_of, open_existing

    async with open_existing(settings) as queue:
        archive = archive_of(queue, settings)
        if chosen is None:
            return None, await archive.archived()
        if chosen.run is not None:
            await counts_of(queue, chosen.run, settings)
        if sys.stdin.isatty() and not yes:
            number = await selected_number(queue, chosen, settings)
            if number and not agreed(number, chosen, "archive", yes=yes):
                return None, await archive.archived()
        return await pack(archive, chosen), await archive.archived()


def _result_words(packed: int, chosen: Selection, older_than: str) -> str:
    from longshore.ui.words import counted

    if not packed and chosen.error is not None:
        return "Completed jobs have no error: nothing was packed. `longshore prune --error` removes failed ones."
    if not packed:
        return f"No completed jobs are older than {older_than} and not archived yet: nothing was packed."
    return f"{counted(packed, 'job')} {'was' if packed == 1 else 'were'} packed."


def _facts(packed: int | None, months: list[Month]) -> dict[str, Any]:
    head = {} if packed is None else {"packed": packed}
    return {**head, "jobs": _sum(months, "jobs"), "files": _sum(months, "files"), "size": _sum(months, "size")} | {
        "months": [{"month": m.month, "jobs": m.jobs, "files": m.files, "size": m.size} for m in months]
    }


def _show(months: list[Month]) -> None:
    from longshore.ui.output import write
    from longshore.ui.tables import write_table
    from longshore.ui.words import size_words

    if not months:
        write("The archive is empty.")
        return
    rows = [(m.month, f"{m.jobs:,}", f"{m.files:,}", size_words(m.size)) for m in months]
    if len(months) > 1:
        sums = [_sum(months, name) for name in ("jobs", "files", "size")]
        rows.append(("all", f"{sums[0]:,}", f"{sums[1]:,}", size_words(sums[2])))
    write_table(("month", "jobs", "files", "size"), rows, right=("jobs", "files", "size"))


def _sum(months: list[Month], name: str) -> int:
    return sum(getattr(month, name) for month in months)
