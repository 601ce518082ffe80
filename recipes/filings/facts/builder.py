"""Makes facts out of pieces of the text, and leaves out those that are not what they are taken for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import date

from filings.edgar.header import Party, Quote
from filings.edgar.submission import Submission
from filings.facts.fact import Fact, Ground, Value
from filings.facts.grounding import Grounding
from filings.facts.spelling import date_in, number_in

OWN_WORDS = frozenset(("kind", "part", "action"))
"""The values that are not in the text: our own words."""

_ABBREVIATIONS = (" Jr.", " Sr.", "Inc.", "Corp.", "Ltd.", "Co.", "N.A.", "L.P.", "S.A.", "B.V.")
"""Ends of names whose full stop belongs to them."""


class Piece:
    """A value and the place that it was read at."""

    def __init__(self, value: Value, start: int, end: int) -> None:
        self.value, self.start, self.end = value, start, end


def quoted(quote: Quote | None) -> Piece | None:
    """Return a line of the header as it is."""
    return None if quote is None or not quote.text else Piece(quote.text, quote.start, quote.end)


def day(quote: Quote | None) -> Piece | None:
    """Return a line of the header as a day."""
    found = None if quote is None else date_in(quote.text[:8])
    return None if quote is None or found is None else Piece(found.isoformat(), quote.start, quote.start + 8)


def spaced(match: re.Match[str], group: str, offset: int) -> Piece | None:
    """Return a group of a match with single spaces; `offset` is where the searched text begins."""
    if match[group] is None:
        return None
    text = match[group].rstrip()
    if not text.endswith(_ABBREVIATIONS):
        text = text.rstrip(" ,;.")
    begin = offset + match.start(group)
    return Piece(" ".join(text.split()), begin, begin + len(text)) if text else None


def day_group(match: re.Match[str], group: str, offset: int) -> Piece | None:
    """Return a group of a match as a day."""
    found: date | None = None if match[group] is None else date_in(match[group])
    if found is None:
        return None
    return Piece(found.isoformat(), offset + match.start(group), offset + match.end(group))


def number_group(match: re.Match[str], group: str, offset: int) -> Piece | None:
    """Return a group of a match as a number."""
    found = None if match[group] is None else number_in(match[group])
    return None if found is None else Piece(found, offset + match.start(group), offset + match.end(group))


class FactBuilder:
    """Makes the facts of one filing."""

    def __init__(self, read: Submission) -> None:
        self.read = read
        self.grounding = Grounding(read.text)
        self.dropped = 0
        """How many values were not where a rule said."""

    def fact(self, kind: str, words: dict[str, str] | None = None, **pieces: Piece | None) -> Iterator[Fact]:
        """Yield the fact of these pieces; none, if a value is not in the text.

        `words` are the values in our own words.
        """
        values: dict[str, Value] = dict(words or {})
        grounds: dict[str, Ground] = {}
        for name, piece in pieces.items():
            values[name] = None
            if piece is None:
                continue
            ground = self.grounding.at(piece.start, piece.end, piece.value)
            if ground is None:
                self.dropped += 1
                return
            values[name], grounds[name] = piece.value, ground
        yield Fact(kind, values, grounds)

    def company_name(self) -> Piece | None:
        """Return the name of the company that the filing is about."""
        company = self.read.company
        return None if company is None else quoted(company.name)

    def parties(self) -> Iterator[Fact]:
        """Yield the companies that the header names, and the persons among the owners."""
        for party in self.read.header.parties:
            name = quoted(party.name)
            if name is None:
                continue
            if is_person(party):
                yield from self.fact("person", name=name, cik=quoted(party.cik))
            else:
                words = {"part": party.part}
                yield from self.fact(
                    "company", words, name=name, cik=quoted(party.cik), sic=quoted(party.sic), state=quoted(party.state)
                )


def is_person(party: Party) -> bool:
    """Return whether an owner is a person: a company has an industry, or a state of incorporation."""
    return party.part in ("owner", "filed by") and party.sic is None and party.state is None
