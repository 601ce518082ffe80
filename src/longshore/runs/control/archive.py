"""Move completed jobs to the archive of a queue that has one."""

from __future__ import annotations

from longshore.errors import UsageError
from longshore.extensions.archive import Archives
from longshore.extensions.find import find
from longshore.queue import Queue, Selection
from longshore.settings import Settings
from longshore.url import mask_url


def archive_of(queue: Queue, settings: Settings) -> Archives:
    """Return the archive of the queue. Raise `UsageError` if its medium has none."""
    archive = find(queue, Archives)
    if archive is None:
        raise UsageError(
            f"{mask_url(settings.queue)} has no archive: finished jobs stay in the queue until you prune "
            "them. To remove old ones: longshore prune --older-than 90d"
        )
    return archive


async def pack(archive: Archives, chosen: Selection) -> int:
    """Pack the selected completed jobs, drop the old history, and return how many jobs were packed."""
    packed = await archive.archive(chosen)
    await archive.forget_history()
    return packed
