"""`longshore prune`: remove finished jobs for good."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.cli.steer import Change, command
from longshore.job import FINISHED

if TYPE_CHECKING:
    from longshore.queue import Queue, Selection


async def _prune(queue: Queue, chosen: Selection) -> int:
    from longshore.runs import pruning

    return await pruning.prune(queue, chosen)


prune = command(
    Change(
        verb="prune",
        made="removed",
        possible=FINISHED,
        default=FINISHED,
        change=_prune,
    ),
    "Remove finished jobs with their results and history, archived ones too. What is pending or claimed always stays;"
    " what was removed may be submitted anew.",
)
