"""`longshore disk`: what is kept on this machine, where, and how large it is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.settings import Settings


def disk(
    json: options.Json = False,
    queue: options.Queue = None,
    debug: options.Debug = None,
) -> None:
    """Show what is kept on this machine, where, and how large it is: the queue, records, pages, bundles, logs, cache.

    `longshore prune` removes jobs with all that is kept of them; `prune --dry-run` says before how much that is.
    """
    from longshore.settings import resolve
    from longshore.system.machine import space
    from longshore.ui.output import write, write_json
    from longshore.ui.tables import write_table
    from longshore.ui.words import size_words

    settings = resolve({"queue": queue, "debug": debug})
    kept = [(what, str(place), *_size(place)) for what, place in _places(settings)]
    free = space(Path(settings.data_folder))
    if json:
        rows = [{"what": what, "where": place, "bytes": size, "files": files} for what, place, size, files in kept]
        write_json({"kept": rows, "free_bytes": free.free, "total_bytes": free.total})
        return
    write_table(
        ("what", "where", "size", "files"),
        [(what, place, size_words(size), f"{files:,}") for what, place, size, files in kept if files],
        right=("size", "files"),
        cut=("where",),
    )
    if not any(files for *_, files in kept):
        write("Nothing is kept here.")
    write(f"{size_words(sum(size for _, _, size, _ in kept))} in all, {size_words(free.free)} free")


def _places(settings: Settings) -> list[tuple[str, Path]]:
    from longshore.fleet.checks.network import file_of
    from longshore.media import full_url
    from longshore.runs.local.defaults import HOME

    data = Path(settings.data_folder)
    queue = file_of(full_url(settings.queue))
    named = {
        "records": data / "records",
        "pages": data / "pages",
        "failure bundles": data / "bundles",
        "page cache": data / "cache",
        "logs of runs": HOME / "logs",
        "logs of fleets": Path("logs"),
    }
    return [*([("queue", queue)] if queue is not None else []), *named.items()]


def _size(place: Path) -> tuple[int, int]:
    from longshore.runs.records.prune_traces import folder_size

    # A SQLite queue has files beside it until its last process has ended.
    beside = [Path(f"{place}{ending}") for ending in ("-wal", "-shm")] if place.is_file() else []
    sizes = [folder_size(each) for each in (place, *beside)]
    return sum(size for size, _ in sizes), sum(files for _, files in sizes)
