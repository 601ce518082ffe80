"""`longshore records`: count the records of a run, and show why others were rejected."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated

import typer

from longshore.cli import options
from longshore.cli.options import meaning

if TYPE_CHECKING:
    from longshore.extensions.record_store import RecordCounts
    from longshore.settings import Settings


def records(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)],
    data_folder: Annotated[
        str | None, typer.Option(metavar="DIR", help=meaning("data_folder"), show_default=False)
    ] = None,
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Count the records of RUN by kind, and its rejected records by reason.

    Only records of completed jobs are counted; the run may still be going on. `longshore export RUN --records` writes
    them.
    """
    from longshore.settings import resolve
    from longshore.ui.output import write, write_json
    from longshore.ui.tables import write_table
    from longshore.ui.words import reason_counts

    settings = resolve({"data_folder": data_folder, "queue": queue, "debug": debug})
    tally = asyncio.run(_count(settings, run))
    if json:
        write_json(tally)
        return
    rows = []
    for kind in sorted(tally.kept.keys() | tally.rejected.keys()):
        reasons = tally.rejected.get(kind, {})
        rows.append((kind, f"{tally.kept.get(kind, 0):,}", f"{sum(reasons.values()):,}", reason_counts(reasons)))
    if rows:
        write_table(("kind", "kept", "rejected", "why"), rows, right=("kept", "rejected"), cut=("why",), keep=("kind",))
    else:
        write(f"Run {run} has no records.")


async def _count(settings: Settings, run: str) -> RecordCounts:
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.runs.records.run_records import run_records

    async with open_existing(settings) as queue:
        await counts_of(queue, run, settings)
        return await run_records(settings, queue, run).tally()
