"""Rules for the cover pages of SC 13D and SC 13G, and for the list of subsidiaries in exhibit 21."""

from __future__ import annotations

import re
from collections.abc import Iterator

from filings.edgar.submission import Document
from filings.facts.builder import FactBuilder, Piece, day_group, number_group, spaced
from filings.facts.fact import Fact
from filings.facts.sentences import relation
from filings.facts.spelling import DATE

_PERSON = re.compile(r"names?[ \t]+of[ \t]+reporting[ \t]+persons?[^\n]*\n\s*(?P<name>[^\n\t]{2,120})", re.IGNORECASE)
_AMOUNT = re.compile(
    r"aggregate\s+amount\s+beneficially\s+owned\s+by\s+each\s+reporting\s+person[\s:]*(?P<shares>\d[\d,]*)",
    re.IGNORECASE,
)
_PERCENT = re.compile(
    r"percent\s+of\s+class\s+represented\s+by\s+amount\s+in\s+row\s+\(?\d+\)?[\s:]*(?P<percent>\d{1,3}(?:\.\d+)?)\s*%",
    re.IGNORECASE,
)
_TYPE = re.compile(r"type\s+of\s+reporting\s+person[^\n]{0,40}?[\s:]+(?P<type>[A-Z]{2})\b", re.IGNORECASE)
_EVENT = re.compile(rf"(?P<date>{DATE})\s*\n?\s*\(\s*date\s+of\s+event", re.IGNORECASE)
_CLASS = re.compile(r"(?P<detail>[A-Z][^\n]{2,80}?)\s*\n\s*\(\s*title\s+of\s+class\s+of\s+securities", re.IGNORECASE)
_SUBSIDIARY = re.compile(
    r"^[ \t]*(?P<name>[A-Z][^\n\t]{1,78}?,?[ ]"
    r"(?:Inc\.|Corp\.|Corporation|LLC|Ltd\.|Limited|L\.P\.|GmbH|S\.A\.|B\.V\.|Company))"
    r"(?:\t+|[ ]{2,})(?P<state>[A-Z][A-Za-z]+(?:[ ][A-Z][A-Za-z]+){0,3})[ \t]*$",
    re.MULTILINE,
)


def ownership_of_schedule(builder: FactBuilder, document: Document) -> Iterator[Fact]:
    """Yield an owner and its share for each cover page of a schedule."""
    company = builder.company_name()
    if company is None:
        return
    text = document.text
    event, stock = _EVENT.search(text), _CLASS.search(text)
    when = None if event is None else day_group(event, "date", document.start)
    detail = None if stock is None else spaced(stock, "detail", document.start)
    persons = list(_PERSON.finditer(text))
    for number, match in enumerate(persons):
        stop = persons[number + 1].start() if number + 1 < len(persons) else len(text)
        amount = _AMOUNT.search(text, match.end(), stop)
        percent = _PERCENT.search(text, match.end(), stop)
        kind = _TYPE.search(text, match.end(), stop)
        name = spaced(match, "name", document.start)
        if name is None or amount is None:
            # Without an amount it is an instruction, or a page that was cut off.
            continue
        if kind is not None and kind["type"].upper() == "IN":
            yield from builder.fact("person", name=name, cik=None)
        else:
            yield from builder.fact("company", {"part": "owner"}, name=name, cik=None, sic=None, state=None)
        yield from relation(
            builder,
            "owns",
            subject=name,
            object=company,
            detail=detail,
            shares=number_group(amount, "shares", document.start),
            percent=None if percent is None else number_group(percent, "percent", document.start),
            valid_from=when,
        )


def subsidiaries(builder: FactBuilder, document: Document) -> Iterator[Fact]:
    """Yield the subsidiaries that exhibit 21 lists."""
    company = builder.company_name()
    if company is None:
        return
    for match in _SUBSIDIARY.finditer(document.text):
        begin = document.start + match.start("name")
        name = Piece(" ".join(match["name"].split()), begin, document.start + match.end("name"))
        state = spaced(match, "state", document.start)
        yield from builder.fact("company", {"part": "subsidiary"}, name=name, cik=None, sic=None, state=state)
        yield from relation(builder, "subsidiary", subject=name, object=company)
