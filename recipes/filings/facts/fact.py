"""A fact: its values, and where in the text of the filing each of them is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date
from typing import Any, Literal

from pydantic import BaseModel

Match = Literal["exact", "folded", "fuzzy"]
Value = str | int | float | None
KINDS = ("company", "person", "role", "relation", "event")


@dataclass(frozen=True)
class Ground:
    """Where a value is in the text of the filing, and how it matched."""

    start: int
    end: int
    match: Match = "exact"
    score: float = 1.0


@dataclass
class Fact:
    """A fact. `grounds` has a place for each value, except those in our own words: the kind, the part, the action."""

    kind: str
    values: dict[str, Value]
    grounds: dict[str, Ground]
    found_by: str = "rules"

    def key(self) -> tuple[object, ...]:
        """Return what makes two facts of a filing the same."""
        return (self.kind, *(_folded(self.values.get(name)) for name in IDENTITY[self.kind]))

    def record(self, source: str) -> dict[str, Any]:
        """Return the record of this fact; `source` is the accession number of the filing."""
        grounds = {name: [each.start, each.end, each.match, each.score] for name, each in self.grounds.items()}
        return {**self.values, "source": source, "found_by": self.found_by, "grounds": grounds}


IDENTITY = {
    "company": ("name", "part"),
    "person": ("name",),
    "role": ("person", "company", "title", "action"),
    "relation": ("kind", "subject", "object", "detail", "shares", "valid_from", "valid_to"),
    "event": ("item", "title", "company"),
}
"""The values that make two facts of one filing the same."""


def distinct(facts: Iterable[Fact]) -> list[Fact]:
    """Return the facts without repetitions, the first of each."""
    found: dict[tuple[object, ...], Fact] = {}
    for fact in facts:
        found.setdefault(fact.key(), fact)
    return list(found.values())


def _folded(value: Value) -> object:
    return " ".join(value.casefold().split()) if isinstance(value, str) else value


class _Record(BaseModel, extra="forbid"):
    source: str
    found_by: Literal["rules", "model"]
    grounds: dict[str, tuple[int, int, Match, float]]
    """For each value: where it begins and ends in the text of the filing, how it matched, and how similar it is."""


class CompanyRecord(_Record):
    """A company that a filing names."""

    name: str
    part: Literal["filer", "issuer", "subject", "filed by", "owner", "subsidiary", "auditor", "counterparty"]
    cik: str | None = None
    sic: str | None = None
    state: str | None = None
    """The state, or the country, of its incorporation."""


class PersonRecord(_Record):
    """A person that a filing names, written as there."""

    name: str
    cik: str | None = None


class RoleRecord(_Record):
    """A person begins, ends or holds a role. A filing says one of them; the graph joins them to intervals."""

    person: str
    company: str
    title: str
    action: Literal["begins", "ends", "holds"]
    valid_from: date | None = None
    valid_to: date | None = None
    as_of: date | None = None
    """Of `holds`: the day on which the filing says so."""


class RelationRecord(_Record):
    """Something between two companies, or between an owner and a company."""

    kind: Literal["owns", "acquired shares", "disposed of shares", "acquired", "agreement", "auditor", "subsidiary"]
    subject: str
    object: str
    detail: str | None = None
    """The agreement, or the class of the shares."""
    shares: float | None = None
    percent: float | None = None
    price: float | None = None
    valid_from: date | None = None
    valid_to: date | None = None


class EventRecord(_Record):
    """An item of an 8-K. Those that the model finds have no number."""

    item: str | None = None
    title: str
    company: str
    day: date | None = None


class FilingRecord(BaseModel, extra="forbid"):
    """A filing."""

    accession: str
    form: str
    filed: date | None
    period: date | None
    company: str | None
    cik: str | None
    documents: int
    problems: list[str]
    """The codes of all that could not be read; the result of the job says more."""
    url: str


RECORDS: dict[str, type[BaseModel]] = {
    "filing": FilingRecord,
    "company": CompanyRecord,
    "person": PersonRecord,
    "role": RoleRecord,
    "relation": RelationRecord,
    "event": EventRecord,
}
