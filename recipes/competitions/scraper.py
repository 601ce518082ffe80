"""Scrapes one competition: its seasons, and the clubs of each."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from competitions.driver import Driver
from competitions.pages import ClubRecord, PageRefusedError, read_competition, read_season
from longshore import ConnectionFailedError, ProcessingError, StatusError

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

T = TypeVar("T")

_TRIES = 6
_PASSING = frozenset({403, 408, 425, 429, 500, 502, 503, 504})
"""Statuses of a site that refuses now and may answer later."""


def scrape_competition(work_order: Mapping[str, Any], driver: Driver, log: FilteringBoundLogger) -> dict[str, Any]:
    """Return the result of a work order: seasons, clubs, and how long it took."""
    began = time.monotonic()
    url, name = str(work_order["url"]), str(work_order.get("competition_id", work_order["url"]))
    log.info(f"Processing competition {name}", pictogram="⚽")
    records: list[ClubRecord] = []
    seasons = read(driver, url, lambda html: read_competition(html, url))
    for season in seasons:
        clubs = _season(driver, season.url, season.text)
        records += clubs
        log.info(f"Season {season.text}: {counted(len(clubs), 'club')}", pictogram="📅")
    found = f"{counted(len(records), 'club')} in {counted(len(seasons), 'season')}"
    log.info(f"Scraped {found} of {name}", pictogram="🏆")
    return {
        "seasons_processed": len(seasons),
        "club_data": [record.as_dict() for record in records],
        "total_clubs_scraped": len(records),
        "execution_time_seconds": round(time.monotonic() - began, 3),
    }


def read(driver: Driver, url: str, reader: Callable[[str], T]) -> T:
    """Open a page until it can be read, and return what `reader` makes of it.

    Raise `ConnectionFailedError`, which is tried again later, if the site goes on refusing; `ProcessingError`, which is
    not, if the page does not exist.
    """
    trouble = ""
    for number in range(_TRIES):
        if number:
            driver.wait(patience() * 2 ** (number - 1))
        try:
            driver.get(url)
            return reader(driver.page_source)
        except PageRefusedError as error:
            trouble = str(error)
        except StatusError as error:
            trouble = f"status {error.status}"
            if error.status not in _PASSING:
                raise ProcessingError(f"{url} cannot be read: {trouble}") from error
    raise ConnectionFailedError(f"{url} was refused {_TRIES} times: {trouble}")


def counted(number: int, thing: str) -> str:
    """Return a number of things in words."""
    return f"{number:,} {thing}" + ("" if number == 1 else "s")


def patience() -> float:
    """Return the seconds before a refused page is asked for again the first time (`COMPETITIONS_PATIENCE`)."""
    return float(os.environ.get("COMPETITIONS_PATIENCE", "2"))


def _season(driver: Driver, url: str, season: str) -> list[ClubRecord]:
    found: dict[str, ClubRecord] = {}
    following: str | None = url
    seen: set[str] = set()
    expected = 0
    while following is not None and following not in seen:
        seen.add(following)
        at = following
        page = read(driver, at, lambda html, at=at: read_season(html, at, season))  # type: ignore[misc]
        found |= {club.club_id: club for club in page.clubs}
        expected, following = page.expected, page.following
    if len(found) != expected:
        raise ConnectionFailedError(f"{url} has {expected} clubs, and {len(found)} were found: it may have changed")
    return list(found.values())
