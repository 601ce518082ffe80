"""`longshore release`: take claimed jobs away from their workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.cli.bulk_verb import command

if TYPE_CHECKING:
    from longshore.queue import Queue, Selection
    from longshore.settings import Settings


async def _release(_: Settings, queue: Queue, chosen: Selection) -> int:
    from longshore.runs.control.release import release as give_back
    from longshore.ui.output import note
    from longshore.ui.words import counted

    done = await give_back(queue, chosen)
    if done.moving:
        note(f"{counted(done.moving, 'job')} are not released: `longshore copy --move` is moving them.")
    return done.released


release = command(
    "release",
    _release,
    "Take claimed jobs away from their workers: they are pending again at once, and the attempt does not count. A"
    " worker that still runs one learns of it within a third of its lease, and cannot settle it any more. Jobs of a"
    " dead worker need no release: they are pending again when the lease expires.",
)
