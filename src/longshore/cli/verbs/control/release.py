"""`longshore release`: take jobs out of the hands of workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.cli.bulk_verb import JobAction, command
from longshore.job import State

if TYPE_CHECKING:
    from longshore.queue import Queue, Selection

_HELD = frozenset({State.CLAIMED})


async def _release(queue: Queue, chosen: Selection) -> int:
    from longshore.runs.control.release import release as give_back
    from longshore.ui.output import note
    from longshore.ui.words import counted

    done = await give_back(queue, chosen)
    if done.restarted:
        note(
            f"Of those, {counted(done.restarted, 'job')} had to be given all attempts again: who held them is not "
            "on the roll of workers."
        )
    if done.moving:
        note(f"{counted(done.moving, 'job')} stay where they are: `longshore copy --move` is taking them elsewhere.")
    return done.pending


release = command(
    JobAction(
        verb="release",
        made="pending again",
        possible=_HELD,
        default=_HELD,
        change=_release,
    ),
    "Take claimed jobs out of the hands of their workers: pending again at once, and no attempt counts. A worker that"
    " is still at one learns of it within a third of its lease, and what it settles is refused. Jobs of a worker that"
    " died come back by themselves when its lease ends.",
)
