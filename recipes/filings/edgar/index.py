"""The lists of filings of a quarter: lines with bars, or columns of fixed width under a line of dashes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import date

from filings.edgar.decode import decoded

_PLAIN_FORMS = ("8-K", "10-K", "10-K405", "10-Q", "SC 13D", "SC 13G", "3", "4", "5")
FORMS = frozenset((*_PLAIN_FORMS, *(f"{form}/A" for form in _PLAIN_FORMS)))
"""The forms that this recipe reads."""
_PATH = re.compile(r"edgar/data/\d{1,10}/(?P<accession>\d{10}-\d\d-\d{6})\.txt")
_COLUMNS = re.compile(
    r"^(?P<form>\S+(?: \S+)*)\s{2,}(?P<company>\S.*?)\s{2,}(?P<cik>\d{1,10})\s+(?P<filed>[\d-]{8,10})\s+"
    r"(?P<path>\S+)\s*$"
)


@dataclass(frozen=True)
class Entry:
    """A filing in the list of a quarter."""

    accession: str
    form: str
    company: str
    cik: str
    filed: date
    path: str


def read_index(body: bytes) -> tuple[list[Entry], list[str]]:
    """Return the filings that a list has, and the lines that could not be read.

    Without a line of dashes it is no list, and has no filings.
    """
    text, _ = decoded(body)
    entries: list[Entry] = []
    unread: list[str] = []
    lines = text.split("\n")
    rule = next((number for number, line in enumerate(lines) if re.fullmatch(r"-{10,}", line.strip())), -1)
    if rule < 0:
        return [], [text[:200]]
    for line in lines[rule + 1 :]:
        if not line.strip():
            continue
        entry = _entry(line)
        if entry is None:
            unread.append(line[:200])
        else:
            entries.append(entry)
    return entries, unread


def _entry(line: str) -> Entry | None:
    if line.count("|") == 4:
        cik, company, form, filed, path = (each.strip() for each in line.split("|"))
    elif (found := _COLUMNS.match(line)) is not None:
        form, company, cik, filed, path = found.group("form", "company", "cik", "filed", "path")
    else:
        return None
    place = _PATH.fullmatch(path)
    try:
        day = date.fromisoformat(filed if "-" in filed else f"{filed[:4]}-{filed[4:6]}-{filed[6:]}")
    except ValueError:
        return None
    if place is None or not cik.isdecimal() or not form:
        return None
    return Entry(place["accession"], form, company, cik.zfill(10), day, path)
