"""The handler of a filing: fetches it, reads it, finds its facts, and merges them into the graph.

A worker that dies anywhere loses nothing: the next one does all of it again, and every step may be repeated.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

from filings import config
from filings.edgar.submission import Problem, Submission, date_of, read_submission
from filings.facts.fact import RECORDS, Fact
from filings.facts.model import ModelReading, facts_with_model
from filings.facts.rules import facts_of
from filings.graph import merge_filing
from filings.page import write_page
from longshore import AsyncKit, BlockPage, Job, handler

KIND = "filing"
_BLOCK_PAGES = [BlockPage(title=each) for each in config.BLOCK_PAGES]
_FETCHES = 3
"""How often a file that ends in the middle is fetched: it may be the file that ends there, or the answer."""


@dataclass(frozen=True)
class Reading:
    """What was read of one filing."""

    accession: str
    submission: Submission
    facts: list[Fact]
    dropped: int


@handler(KIND, timeout=3600, retries=5, backoff=1, identity=("url",), emits=RECORDS, block_pages=_BLOCK_PAGES)
async def filing(job: Job, kit: AsyncKit) -> dict[str, Any]:
    """Read one filing."""
    if config.is_live():
        config.check_contact()
    payload = job.payload
    body = await _whole_file(payload["url"], kit)
    reading = await asyncio.to_thread(_read, body, payload["accession"])
    model: ModelReading | None = None
    if payload.get("ai", True) and config.uses_model():
        model = await facts_with_model(reading.submission, reading.facts)
        reading = replace(reading, facts=model.facts, dropped=reading.dropped + model.dropped)
    own = _filing_record(reading, payload)
    kit.emit(own, "filing")
    for fact in reading.facts:
        kit.emit(fact.record(reading.accession), fact.kind)
    await asyncio.to_thread(merge_filing, own, reading.facts)
    page = await asyncio.to_thread(write_page, reading.accession, reading.submission, reading.facts)
    counts = Counter(fact.kind for fact in reading.facts)
    kit.log.info("Read filing", accession=reading.accession, form=own["form"], facts=len(reading.facts))
    return {
        "facts": dict(counts),
        "dropped": reading.dropped,
        "unread": [{"code": each.code, "detail": each.detail} for each in reading.submission.problems],
        "page": None if page is None else str(page),
        "model": None if model is None else _counts(model),
    }


def _counts(model: ModelReading) -> dict[str, int]:
    return {
        "facts": sum(fact.found_by == "model" for fact in model.facts),
        "passages": model.passages,
        "passages_left_out": model.left_out,
        "answers_not_read": model.unreadable,
    }


async def _whole_file(url: str, kit: AsyncKit) -> bytes:
    """Return the file. One that ends in the middle is fetched again, until it is whole or the same twice."""
    body = (await kit.http.get(url)).body
    for _ in range(_FETCHES - 1):
        if not (await asyncio.to_thread(read_submission, body)).cut_off:
            return body
        again = (await kit.http.get(url)).body
        if again == body:
            return body
        kit.log.warning("The file ended in the middle, and is fetched again", url=url)
        body = again
    return body


def _read(body: bytes, accession: str) -> Reading:
    read = read_submission(body)
    facts, dropped = facts_of(read)
    own = read.accession
    if own is not None and own.text != accession:
        # It goes by the number under which the source lists it: a file must not pass for another one.
        read.problems.append(Problem("accession-differs", f"the header has the number {own.text}"))
    return Reading(accession, read, facts, dropped)


def _filing_record(reading: Reading, payload: dict[str, Any]) -> dict[str, Any]:
    read = reading.submission
    company = read.company
    filed, period = date_of(read.filed), date_of(read.period)
    return {
        "accession": reading.accession,
        "form": payload["form"] if read.form is None else read.form.text,
        # The list of the quarter knows the day, too.
        "filed": payload["filed"] if filed is None else filed.isoformat(),
        "period": None if period is None else period.isoformat(),
        "company": None if company is None or company.name is None else company.name.text,
        "cik": None if company is None or company.cik is None else company.cik.text,
        "documents": len(read.documents),
        "problems": sorted({each.code for each in read.problems}),
        "url": payload["url"],
    }
