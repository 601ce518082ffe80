"""`longshore export`: write the results of a run to a file."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Annotated, Any

import typer

from longshore.cli import options
from longshore.cli.options import meaning
from longshore.cli.verb import Verb

if TYPE_CHECKING:
    from longshore.queue import Count
    from longshore.runs.export import Exported, ExportFormat, ExportOrder
    from longshore.settings import Settings

_RECORDS = "--records"


class Export(Verb):
    """The verb: its `--records` may be given with or without a kind."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments; a bare `--records` gets an empty value, which means all kinds."""
        given = list(args)
        for place, argument in enumerate(args):
            following = args[place + 1] if place + 1 < len(args) else "--"
            if argument == _RECORDS and following.startswith("-"):
                given[place] = f"{_RECORDS}="
        return super().parse_args(ctx, given)


COMMAND = Export


def export(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The run's id.", show_default=False)],
    format_: Annotated[
        str | None,
        typer.Option(
            "--format",
            metavar="F",
            help="jsonl, csv, parquet or sqlite. Left out: as the name of the file says, else jsonl.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        str,
        typer.Option(
            "--out",
            "-o",
            metavar="FILE",
            help="Where to write; - is standard output. A name that ends in .zst or .gz is compressed (jsonl, csv).",
        ),
    ] = "-",
    in_order: Annotated[
        bool,
        typer.Option("--sorted", metavar="", help="By kind and key, not by age: the same results, the same bytes."),
    ] = False,
    records: Annotated[
        str | None,
        typer.Option(
            _RECORDS,
            metavar="[KIND]",
            help="Instead of the results: the records that the handlers emitted, of one kind or of all.",
            show_default=False,
        ),
    ] = None,
    data_folder: Annotated[
        str | None, typer.Option(metavar="DIR", help=meaning("data_folder"), show_default=False)
    ] = None,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Write the results of RUN, or its records, to a file; the run may still be going on.

    The file is complete or does not exist. jsonl has a line for each completed job: run, kind, key, payload, result.
    The other formats are tables with a column for each field; sqlite has a table for each kind of record.
    """
    from longshore.runs.export import ExportOrder, format_of
    from longshore.settings import resolve
    from longshore.ui.output import note
    from longshore.ui.words import counted

    settings = resolve({"data_folder": data_folder, "queue": queue, "debug": debug})
    order = ExportOrder.NAME if in_order else ExportOrder.AGE
    chosen = format_of(out, format_)
    noun = "result" if records is None else "record"
    exported, count = asyncio.run(_export(settings, run, out, chosen, order, records))
    if out != "-":
        columns = f", {counted(exported.columns, 'column')}" if exported.columns else ""
        note(f"{counted(exported.rows, noun)} of {run} in {out} ({chosen}{columns})")
    if count.remaining:
        # Counted before the first row was read: some of these jobs may be in the file.
        note(
            f"{counted(count.remaining, 'job')} of {run} {'was' if count.remaining == 1 else 'were'} not finished yet."
        )


async def _export(
    settings: Settings, run: str, out: str, format_: ExportFormat, order: ExportOrder, records: str | None
) -> tuple[Exported, Count]:
    from longshore.queue import totals
    from longshore.runs.export import RecordRows, ResultRows, Rows, export
    from longshore.runs.open_queue import counts_of, open_existing
    from longshore.runs.records.run_records import run_records
    from longshore.ui.progress import counting

    async with open_existing(settings) as queue:
        count = totals(await counts_of(queue, run, settings))
        rows: Rows = ResultRows(queue, run)
        if records is not None:
            rows = RecordRows(run, run_records(settings, queue, run), records or None)
        with counting(lambda read: f"Reading {run}: {read:,}") as progress:
            return await export(rows, out, format_, order, progress=progress), count
