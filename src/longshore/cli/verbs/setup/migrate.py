"""`longshore migrate`: create the tables of a queue, or bring them up to date."""

from __future__ import annotations

import asyncio

from longshore.cli import options


def migrate(queue: options.Queue = None, debug: options.Debug = None) -> None:
    """Create the queue's schema or bring it up to date, and print its version. A second time it changes nothing.

    Opening a queue does the same if its user is allowed to. If workers are not, the owner runs this after each upgrade.
    """
    from longshore import media
    from longshore.runs.open_queue import check_shared
    from longshore.settings import resolve
    from longshore.ui.output import write
    from longshore.url import mask_url

    settings = resolve({"queue": queue, "debug": debug})
    check_shared(settings)
    done = asyncio.run(media.migrate(settings.queue))
    where = mask_url(settings.queue)
    match done:
        case None:
            write(f"{where} has no schema: nothing to do.")
        case (0, after):
            write(f"The schema of {where} was made: version {after}.")
        case (before, after) if before == after:
            write(f"The schema of {where} is up to date: version {after}, nothing to do.")
        case (before, after):
            write(f"The schema of {where} was brought from version {before} to {after}.")
