"""`longshore retry`: try failed jobs again."""

from __future__ import annotations

from longshore.cli.bulk_verb import command

retry = command(
    "retry",
    lambda _, queue, chosen: queue.retry(chosen),
    "Give failed jobs all their attempts again. Cancelled jobs too, if --state or an id names them.",
)
