"""`longshore scrapers`: list the scrapers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from longshore.cli import options

if TYPE_CHECKING:
    from longshore.runs.scrapers.registry import Scraper


def scrapers(json: options.Json = False, debug: options.Debug = None) -> None:
    """List the scrapers of longshore.toml, how each is started, and the source of its jobs.

    If the registry has errors, the command names all of them.
    """
    from longshore.runs.scrapers.registry import load_scrapers
    from longshore.settings import TOML, resolve
    from longshore.ui.output import write, write_json
    from longshore.ui.tables import write_table

    resolve({"debug": debug})
    found = [_described(scraper) for scraper in load_scrapers().values()]
    if json:
        write_json(found)
    elif not found:
        write(f"There are no scrapers. A table [scrapers.NAME] in {TOML} makes one.")
    else:
        columns = ("name", "mode", "handler", "kind", "source", "partitions")
        rows = [[_cell(one[column]) for column in columns] for one in found]
        write_table(columns, rows, cut=("source", "partitions"))


def _described(scraper: Scraper) -> dict[str, Any]:
    from longshore.settings import show

    source = scraper.jobs
    return {
        "name": scraper.name,
        "mode": str(scraper.mode),
        "handler": scraper.handler,
        "kind": scraper.kind,
        "source": None if source is None else source.name,
        "partitions": list(scraper.partitions),
        "settings": {name: show(value) for name, value in scraper.settings.items()},
    }


def _cell(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else value or ""
