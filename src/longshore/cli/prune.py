"""`longshore prune`: remove finished jobs for good."""

from __future__ import annotations

from longshore.cli.steer import Change, command
from longshore.job import FINISHED

prune = command(
    Change(
        verb="prune",
        made="removed",
        possible=FINISHED,
        default=FINISHED,
        change=lambda queue, chosen: queue.prune(chosen),
    ),
    "Remove finished jobs with their results and history, archived ones too. What is pending or claimed always stays;"
    " what was removed may be submitted anew.",
)
