"""`longshore cancel`: cancel jobs that are not finished."""

from __future__ import annotations

from longshore.cli.bulk_verb import JobAction, command
from longshore.job import State

_OPEN = frozenset({State.PENDING, State.CLAIMED})

cancel = command(
    JobAction(
        verb="cancel",
        made="cancelled",
        possible=_OPEN,
        default=_OPEN,
        change=lambda _, queue, chosen: queue.cancel(chosen),
    ),
    "Cancel jobs that are not finished. A worker that holds one learns of it within a third of its lease.",
)
