"""How the proxies stand, as a table: who rests, where, until when, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from longshore.scrape.proxies.pool import Standing, Trouble

COLUMNS = ("proxy", "requests", "succeeded", "failed", "host", "state", "until", "why")


def rows(standings: Iterable[Standing]) -> list[Sequence[str]]:
    """A row for each proxy, and one more for each further host it has trouble with."""
    made: list[Sequence[str]] = []
    for each in standings:
        counts = (each.proxy, f"{each.requests:,}", f"{each.succeeded:,}", f"{each.failed:,}")
        troubles = [_cells(trouble) for trouble in each.troubles] or [("", "serving", "", "")]
        made.append((*counts, *troubles[0]))
        made += [("", "", "", "", *cells) for cells in troubles[1:]]
    return made


def _cells(trouble: Trouble) -> tuple[str, str, str, str]:
    until = "" if trouble.until is None else f"{datetime.fromtimestamp(trouble.until, UTC).astimezone():%H:%M:%S}"
    return trouble.host or "every host", trouble.state, until, f"{trouble.failures} in a row: {trouble.why}"
