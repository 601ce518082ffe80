"""Write the results or the records of a run to a file: `longshore export` and `longshore.export`."""

from __future__ import annotations

from dataclasses import dataclass

from longshore.extensions.rejected import RejectedFiles
from longshore.queue import Count, totals
from longshore.runs.export.export import Exported, ExportFormat, ExportOrder, Progress, export
from longshore.runs.export.rows import ItemRows, RecordRows, ResultRows, Rows
from longshore.runs.open_queue import counts_of, open_existing
from longshore.runs.records.run_records import run_records
from longshore.runs.watch.rejections import rejections_of
from longshore.settings import Settings


@dataclass(frozen=True)
class ExportRequest:
    """The rows to write, and the file they go to."""

    run: str
    out: str
    format: ExportFormat
    order: ExportOrder = ExportOrder.AGE
    records: str | None = None
    """The kind of the records to write; empty for all kinds, None for the results."""
    bare: bool = False
    """Only the fields of the records themselves."""


@dataclass(frozen=True)
class RunExport:
    """A written export, and the run it was made of."""

    exported: Exported
    count: Count
    """The counts before the first row was read."""
    rejects: RejectedFiles | None
    """Files of the run that were rejected; None if there are none."""


async def export_run(settings: Settings, request: ExportRequest, progress: Progress = lambda _: None) -> RunExport:
    """Write the file, whole or not at all. Raise `NotFoundError` if the queue does not have the run."""
    run = request.run
    async with open_existing(settings) as queue:
        count = totals(await counts_of(queue, run, settings))
        rows: Rows = ResultRows(queue, run)
        if request.records is not None:
            kept, kind = run_records(settings, queue, run), request.records or None
            rows = ItemRows(run, kept, kind, bare=True) if request.bare else RecordRows(run, kept, kind)
        exported = await export(rows, request.out, request.format, request.order, progress=progress)
        return RunExport(exported, count, await rejections_of(queue, run))
