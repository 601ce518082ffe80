"""Finds facts with a model. A model invents: a value that is not in the text of the filing is dropped, and counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import BaseModel, TypeAdapter, ValidationError

from filings import config
from filings.edgar.header import Quote
from filings.edgar.submission import Submission
from filings.facts.fact import Fact, Ground, Value, distinct
from filings.facts.grounding import Grounding, fold
from filings.facts.ollama import Ollama
from filings.facts.spelling import date_in

PASSAGE = 6_000
"""Characters in one question."""
MOST_PASSAGES = 12
_INSTRUCTIONS = (
    "You read a passage of an SEC filing and list facts that the passage states. Copy every name and title exactly as "
    "the passage writes it. Write dates as YYYY-MM-DD. List only facts that the passage states, and leave a list empty "
    "if it states none."
)


class _Role(BaseModel):
    person: str
    title: str
    action: Literal["begins", "ends", "holds"]
    date: str | None = None


class _Relation(BaseModel):
    kind: Literal["owns", "acquired", "agreement", "auditor", "subsidiary"]
    subject: str
    object: str
    date: str | None = None


class _Event(BaseModel):
    title: str
    date: str | None = None


class _Answer(BaseModel):
    """What the model is asked for. Its JSON schema goes along with each question."""

    people: list[str] = []
    companies: list[str] = []
    roles: list[_Role] = []
    relations: list[_Relation] = []
    events: list[_Event] = []


SCHEMA: dict[str, Any] = _Answer.model_json_schema()
_ENTRIES: dict[str, TypeAdapter[Any]] = {
    "people": TypeAdapter(str),
    "companies": TypeAdapter(str),
    "roles": TypeAdapter(_Role),
    "relations": TypeAdapter(_Relation),
    "events": TypeAdapter(_Event),
}


@dataclass
class ModelReading:
    """What came of the questions about one filing."""

    facts: list[Fact] = field(default_factory=list)
    """With those of the rules, which come first."""
    dropped: int = 0
    """Values that are not in the text, and entries that the schema does not know."""
    passages: int = 0
    left_out: int = 0
    """Passages that were not asked about, because the filing is too long."""
    unreadable: int = 0
    """Answers that were no JSON of the schema."""


@dataclass(frozen=True)
class Passage:
    """A part of the text of a filing."""

    text: str
    start: int


async def facts_with_model(read: Submission, facts: list[Fact]) -> ModelReading:
    """Ask the model of the settings about each passage, and return its facts after those that the rules found."""
    ollama, model = Ollama(config.ollama_url(), seconds=config.ollama_seconds()), config.ollama_model()
    found = list(passages(read))
    reading = ModelReading(facts, passages=min(len(found), MOST_PASSAGES), left_out=max(len(found) - MOST_PASSAGES, 0))
    if not found:
        return reading
    grounded = GroundedAnswers(read, await asyncio.to_thread(Grounding, read.text))
    for passage in found[:MOST_PASSAGES]:
        messages = [{"role": "system", "content": _INSTRUCTIONS}, {"role": "user", "content": passage.text}]
        answer = await ollama.ask(model, messages, SCHEMA)
        parsed, pruned = answer_of(answer)
        if parsed is None:
            reading.unreadable += 1
            continue
        grounded.dropped += pruned
        new = await asyncio.to_thread(lambda it=parsed, at=passage: list(grounded.facts(it, at)))  # type: ignore[misc]
        reading.facts = distinct([*reading.facts, *new])
    reading.dropped = grounded.dropped
    return reading


def answer_of(text: str) -> tuple[_Answer | None, int]:
    """Return an answer without the entries that the schema does not know, and their number; None if it is no object."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None, 0
    if not isinstance(found, dict):
        return None, 0
    answer, pruned = _Answer(), 0
    for name, adapter in _ENTRIES.items():
        entries = found.get(name, [])
        if not isinstance(entries, list):
            pruned += 1
            continue
        for entry in entries:
            try:
                getattr(answer, name).append(adapter.validate_python(entry, strict=True))
            except ValidationError:
                pruned += 1
    return answer, pruned


def passages(read: Submission) -> Iterator[Passage]:
    """Yield the prose of a filing in parts that end with a line."""
    for document in read.documents:
        if document.kind not in ("html", "text"):
            continue
        begin = 0
        while begin < len(document.text):
            end = begin + PASSAGE
            if end < len(document.text):
                line = document.text.rfind("\n", begin + PASSAGE // 2, end)
                end = end if line < 0 else line
            text = document.text[begin:end]
            if text.strip():
                yield Passage(text, document.start + begin)
            begin = end


class GroundedAnswers:
    """Makes facts of answers, each value with its place in the text."""

    def __init__(self, read: Submission, grounding: Grounding) -> None:
        self._read = read
        self._grounding = grounding
        company = read.company
        self._company: Quote | None = None if company is None else company.name
        self.dropped = 0

    def facts(self, answer: _Answer, passage: Passage) -> Iterator[Fact]:
        """Yield the facts of an answer that are in the text."""
        for name in answer.people:
            yield from self._fact("person", passage, {}, name=name)
        for name in answer.companies:
            if not self._is_filer(name):
                yield from self._fact("company", passage, {"part": "counterparty"}, name=name)
        for role in answer.roles:
            end = {"begins": "valid_from", "ends": "valid_to", "holds": "as_of"}[role.action]
            days = {"valid_from": None, "valid_to": None, "as_of": None} | {end: self._day(role.date)}
            yield from self._fact("person", passage, {}, name=role.person)
            yield from self._about_filer(
                "role", passage, {"action": role.action}, person=role.person, title=role.title, **days
            )
        for relation in answer.relations:
            yield from self._relation(relation, passage)
        for event in answer.events:
            yield from self._about_filer("event", passage, {}, title=event.title, day=self._day(event.date))

    def _relation(self, relation: _Relation, passage: Passage) -> Iterator[Fact]:
        day = self._day(relation.date)
        ends: dict[str, Value] = {"subject": relation.subject, "object": relation.object}
        for name, value in ends.items():
            if self._is_filer(str(value)) and self._company is not None:
                ends[name] = self._company.text
            else:
                yield from self._fact("company", passage, {"part": "counterparty"}, name=value)
        none = dict.fromkeys(("detail", "shares", "percent", "price", "valid_to"))
        yield from self._fact("relation", passage, {"kind": relation.kind}, **ends, valid_from=day, **none)

    def _about_filer(self, kind: str, passage: Passage, words: dict[str, str], **values: Value) -> Iterator[Fact]:
        if self._company is None:
            self.dropped += 1
            return
        for fact in self._fact(kind, passage, words, **values):
            fact.values["company"] = self._company.text
            fact.grounds["company"] = Ground(self._company.start, self._company.end)
            yield fact

    def _fact(self, kind: str, passage: Passage, words: dict[str, str], **values: Value) -> Iterator[Fact]:
        """Yield a fact, unless a name or a title is not in the text. A day that is not there is left out of it."""
        grounds: dict[str, Ground] = {}
        for name, value in values.items():
            if value is None:
                continue
            ground = self._grounding.find(value, passage.start)
            if ground is not None:
                grounds[name] = ground
                continue
            self.dropped += 1
            if name not in ("valid_from", "valid_to", "as_of", "day"):
                return
            values[name] = None
        missing = {"company": ("cik", "sic", "state"), "person": ("cik",), "event": ("item",)}.get(kind, ())
        yield Fact(kind, {**words, **dict.fromkeys(missing), **values}, grounds, "model")

    def _day(self, text: str | None) -> str | None:
        """Return a day in one way of writing; one that is none is dropped."""
        if not text:
            return None
        found = date_in(text)
        if found is None:
            self.dropped += 1
            return None
        return found.isoformat()

    def _is_filer(self, name: str) -> bool:
        folded = fold(name)
        return folded in ("the company", "company", "registrant", "the registrant") or (
            self._company is not None and folded == fold(self._company.text)
        )
