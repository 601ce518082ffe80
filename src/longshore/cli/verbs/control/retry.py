"""`longshore retry`: try failed jobs again."""

from __future__ import annotations

from longshore.cli.bulk_verb import JobAction, command
from longshore.job import State

retry = command(
    JobAction(
        verb="retry",
        made="pending again",
        possible=frozenset({State.FAILED, State.CANCELLED}),
        default=frozenset({State.FAILED}),
        change=lambda _, queue, chosen: queue.retry(chosen),
    ),
    "Give failed jobs all their attempts again. Cancelled jobs too, if --state or an id names them.",
)
