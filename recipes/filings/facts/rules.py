"""Finds facts without a model: the header, then the rules for the form."""

from __future__ import annotations

from collections.abc import Iterator

from filings.edgar.submission import Document, Submission
from filings.facts.builder import FactBuilder
from filings.facts.cover_pages import ownership_of_schedule, subsidiaries
from filings.facts.fact import Fact, distinct
from filings.facts.items import items
from filings.facts.ownership import ownership
from filings.facts.sentences import sentences


def facts_of(read: Submission) -> tuple[list[Fact], int]:
    """Return the facts of a filing, and how many were dropped because a value was not where a rule said."""
    builder = FactBuilder(read)
    found = distinct(_all(builder))
    return found, builder.dropped


def _all(builder: FactBuilder) -> Iterator[Fact]:
    yield from builder.parties()
    form = "" if builder.read.form is None else builder.read.form.text.upper().removesuffix("/A")
    main = builder.read.main()
    for document in builder.read.documents:
        yield from _of_document(builder, document, form, main=document is main)


def _of_document(builder: FactBuilder, document: Document, form: str, *, main: bool) -> Iterator[Fact]:
    if document.kind == "xml":
        yield from ownership(builder, document)
    elif document.type.upper().startswith("EX-21"):
        yield from subsidiaries(builder, document)
    elif main and form in ("SC 13D", "SC 13G"):
        yield from ownership_of_schedule(builder, document)
    elif main and form in ("8-K", "10-K", "10-K405", "10-Q"):
        if form == "8-K":
            yield from items(builder, document)
        yield from sentences(builder, document)
