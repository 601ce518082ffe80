"""Dates and numbers as filings write them."""

from __future__ import annotations

import re
from datetime import date

MONTHS = (
    "january", "february", "march", "april", "may", "june",
    "july", "august", "september", "october", "november", "december",
)  # fmt: skip
DATE = r"(?:January|February|March|April|May|June|July|August|September|October|November|December)\s+\d{1,2},\s+\d{4}"
ANY_DATE = re.compile(
    rf"{DATE}|\b\d{{4}}-\d\d-\d\d\b|\b(?:19|20)\d{{6}}\b|\b\d{{1,2}}/\d{{1,2}}/(?:19|20)\d\d\b", re.IGNORECASE
)
ANY_NUMBER = re.compile(r"\$?\d[\d,]*(?:\.\d+)?(?:\s+(?:million|billion))?")
_SCALES = {"million": 1e6, "billion": 1e9}


def date_in(text: str) -> date | None:
    """Return the day that a piece of text names: `March 4, 2010`, `2010-03-04`, `20100304`, `3/4/2010`."""
    text = " ".join(text.split())
    try:
        if found := re.fullmatch(r"(\d{4})-?(\d\d)-?(\d\d)", text):
            return date(int(found[1]), int(found[2]), int(found[3]))
        if found := re.fullmatch(r"(\d{1,2})/(\d{1,2})/(\d{4})", text):
            return date(int(found[3]), int(found[1]), int(found[2]))
        if found := re.fullmatch(r"([A-Za-z]+) (\d{1,2}), (\d{4})", text):
            return date(int(found[3]), MONTHS.index(found[1].lower()) + 1, int(found[2]))
    except ValueError:
        return None
    return None


def number_in(text: str) -> float | None:
    """Return the number that a piece of text writes: `1,250,000`, `$12.5 million`, `5.6`."""
    found = re.fullmatch(r"\$?\s*(\d[\d,]*(?:\.\d+)?)(?:\s+(million|billion))?\s*%?", text.strip(), re.IGNORECASE)
    if found is None:
        return None
    digits = found[1].replace(",", "")
    if len(digits) > 40:
        return None
    return round(float(digits) * _SCALES.get((found[2] or "").lower(), 1), 6)
