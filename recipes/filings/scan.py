"""Scans the lists of filings of a year, a quarter after the other, and makes a job for each filing."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator

import longshore
from filings import config
from filings.edgar.index import FORMS, Entry, read_index
from longshore import ProcessingError, StatusError, new_job
from longshore.job import NewJob

KIND = "filing"
_NEXT = re.compile(r'<([^<>]*)>\s*;\s*rel="?next"?')
_MOST_PAGES = 10_000


class Scan:
    """A scan of a year. `unread` counts the lines of the lists that could not be read."""

    def __init__(self, year: int, limit: int | None) -> None:
        self._year, self._limit = year, limit
        self.unread = 0

    def entries(self) -> Iterator[Entry]:
        """Yield the filings of the forms that this recipe reads, each once, until the limit."""
        config.slow_down()
        seen = set[str]()
        for quarter in (1, 2, 3, 4):
            for entry in self._quarter(quarter):
                if entry.form not in FORMS or entry.accession in seen:
                    continue
                if self._limit is not None and len(seen) >= self._limit:
                    return
                seen.add(entry.accession)
                yield entry

    def jobs(self, *, ai: bool) -> Iterator[NewJob]:
        """Yield a job for each filing. Its name is the accession number, so it is in a run once."""
        for entry in self.entries():
            payload = {
                "url": f"{config.source()}/{entry.path}",
                "accession": entry.accession,
                "form": entry.form,
                "filed": entry.filed.isoformat(),
                "company": entry.company,
                "cik": entry.cik,
                "ai": ai,
            }
            yield new_job(KIND, payload, key=entry.accession)

    def _quarter(self, quarter: int) -> Iterator[Entry]:
        url: str | None = f"{config.source()}/edgar/full-index/{self._year}/QTR{quarter}/master.idx"
        for _ in range(_MOST_PAGES):
            if url is None:
                return
            try:
                page = longshore.fetch(url)
            except StatusError as error:
                if error.status in (403, 404):
                    # The quarter has not begun.
                    print(f"There is no list of {self._year}, quarter {quarter} ({error}).", file=sys.stderr)
                    return
                raise
            entries, unread = read_index(page.body)
            if unread and not entries:
                raise ProcessingError(f"{url} is no list of filings: it begins with {unread[0][:60]!r}")
            self.unread += len(unread)
            yield from entries
            following = _NEXT.search(page.headers.get("Link", ""))
            url = None if following is None else page.absolute(following[1])
