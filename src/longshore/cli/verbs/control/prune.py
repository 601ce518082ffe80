"""`longshore prune`: remove finished jobs for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.cli.bulk_verb import command

if TYPE_CHECKING:
    from longshore.queue import Queue, Selection
    from longshore.settings import Settings


async def _prune(settings: Settings, queue: Queue, chosen: Selection) -> int:
    from longshore.runs.records.prune_records import prune_with_records
    from longshore.runs.records.run_records import RecordsPlace

    return await prune_with_records(RecordsPlace.of(settings), queue, chosen)


prune = command(
    "prune",
    _prune,
    "Remove finished jobs with their results, records and history, archived ones too. Pending and claimed jobs always"
    " stay."
    " A removed job may be submitted again.",
)
