"""`longshore export`: write the results of a run to a file."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any

import typer

from longshore.cli import options
from longshore.cli.options import meaning
from longshore.cli.verb import Verb
from longshore.errors import UsageError

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
    bare: Annotated[
        bool, typer.Option("--bare", metavar="", help="With --records: only their own fields, not the job's.")
    ] = False,
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
    from longshore.runs.export.export_run import ExportRequest, export_run
    from longshore.settings import resolve
    from longshore.ui.output import note
    from longshore.ui.progress import counting
    from longshore.ui.words import counted, set_aside

    if bare and records is None:
        raise UsageError("--bare belongs to --records.")
    settings = resolve({"data_folder": data_folder, "queue": queue, "debug": debug})
    order = ExportOrder.NAME if in_order else ExportOrder.AGE
    chosen = format_of(out, format_)
    noun = "result" if records is None else "record"
    request = ExportRequest(run, out, chosen, order, records, bare)
    with counting(lambda read: f"Reading {run}: {read:,}") as progress:
        done = asyncio.run(export_run(settings, request, progress))
    exported, count, rejects = done.exported, done.count, done.rejects
    if out != "-":
        columns = f", {counted(exported.columns, 'column')}" if exported.columns else ""
        note(f"{counted(exported.rows, noun)} of {run} in {out} ({chosen}{columns})")
    if count.remaining:
        # Counted before the first row was read: some of these jobs may be in the file.
        note(
            f"{counted(count.remaining, 'job')} of {run} {'was' if count.remaining == 1 else 'were'} not finished yet."
        )
    if rejects is not None:
        note(set_aside(rejects.count, rejects.where))
