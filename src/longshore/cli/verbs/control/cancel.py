"""`longshore cancel`: cancel jobs that are not finished."""

from __future__ import annotations

from longshore.cli.bulk_verb import command

cancel = command(
    "cancel",
    lambda _, queue, chosen: queue.cancel(chosen),
    "Cancel jobs that are not finished. A worker that holds one learns of it within a third of its lease.",
)
