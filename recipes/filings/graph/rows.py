"""The rows that one filing adds to the graph."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from filings.facts.fact import Fact
from filings.facts.grounding import fold
from filings.graph.schema import NODES, RELATIONS

Row = dict[str, Any]


@dataclass
class Rows:
    """Nodes by their label, and relations by their type and the labels of their ends."""

    source: str
    nodes: dict[str, dict[str, Row]] = field(default_factory=dict)
    relations: dict[tuple[str, str, str], dict[str, Row]] = field(default_factory=dict)

    def node(self, label: str, name: str, values: Mapping[str, Any]) -> None:
        """Add a node; of several with the same id, each gives the values that are not None."""
        row = self.nodes.setdefault(label, {}).setdefault(name, {"id": name, **dict.fromkeys(NODES[label])})
        row.update({key: values[key] for key in NODES[label] if values.get(key) is not None})

    def relation(self, kind: str, start: tuple[str, str], end: tuple[str, str], values: Mapping[str, Any]) -> None:
        """Add a relation between two nodes, unless the schema has none between such ones."""
        allowed = RELATIONS.get(kind)
        if allowed is None or (start[0], end[0]) not in allowed.ends:
            return
        row = {name: values.get(name) for name in allowed.properties}
        named = "|".join("" if value is None else str(value) for value in row.values())
        key = f"{self.source}|{named}"
        row |= {"start_id": start[1], "end_id": end[1], "key": key, "source": self.source}
        self.relations.setdefault((kind, start[0], end[0]), {})[f"{start[1]}|{key}|{end[1]}"] = row

    def people(self) -> list[str]:
        """Return the ids of the people, in an order in which all who lock them lock them."""
        return sorted(self.nodes.get("Person", {}))


def rows_of(filing: Mapping[str, Any], facts: Iterable[Fact]) -> Rows:
    """Return the rows of a filing: of its record, and its facts."""
    facts = list(facts)
    rows = Rows(filing["accession"])
    own = ("Filing", rows.source)
    rows.node("Filing", rows.source, filing)
    ids = _ids(filing, facts)
    for fact in facts:
        if fact.kind in ("company", "person"):
            label = fact.kind.title()
            place = ids[label, _name(str(fact.values["name"]))]
            rows.node(label, place[1], fact.values)
            rows.relation("MENTIONED_IN", place, own, {"part": fact.values.get("part")})
    about = ids.get(("Company", _name(str(filing["company"] or ""))))
    if about is not None:
        rows.relation("FILED", about, own, {})
    for fact in facts:
        _add(rows, ids, fact)
    return rows


def person_id(name: str, company: str) -> str:
    """Return the id of a person: the words of the name in any order, without initials, within one company.

    Forms 3, 4 and 5 write the last name first. Two people of the same name in one company are taken for one.
    """
    words = sorted(word for word in _name(name).split() if len(word) > 1)
    return f"{company}/{' '.join(words) or _name(name)}"


def _add(rows: Rows, ids: Mapping[tuple[str, str], tuple[str, str]], fact: Fact) -> None:
    values = fact.values
    if fact.kind == "event":
        company = ids.get(("Company", _name(str(values["company"]))))
        event = f"{rows.source}/{values['item'] or _name(str(values['title']))}"
        rows.node("Event", event, {**values, "source": rows.source})
        if company is not None:
            rows.relation("HAPPENED_AT", ("Event", event), company, {})
    elif fact.kind == "role":
        person = ids.get(("Person", _name(str(values["person"]))))
        company = ids.get(("Company", _name(str(values["company"]))))
        if person is not None and company is not None:
            rows.relation("HAS_ROLE", person, company, values)
    elif fact.kind == "relation":
        subject, target = _name(str(values["subject"])), _name(str(values["object"]))
        start = ids.get(("Person", subject)) or ids.get(("Company", subject))
        end = ids.get(("Company", target))
        if start is not None and end is not None:
            rows.relation(str(values["kind"]).upper().replace(" ", "_"), start, end, values)


def _ids(filing: Mapping[str, Any], facts: list[Fact]) -> dict[tuple[str, str], tuple[str, str]]:
    """Return the label and id of each name that the filing has."""
    ids: dict[tuple[str, str], tuple[str, str]] = {}
    scope = f"cik:{filing['cik']}" if filing["cik"] else f"filing:{filing['accession']}"
    for fact in facts:
        name = _name(str(fact.values.get("name") or ""))
        if fact.kind == "company":
            cik = fact.values["cik"]
            if cik is not None:
                # The number is surer than the name, which other parts of the filing have without it.
                ids["Company", name] = ("Company", f"cik:{str(cik).zfill(10)}")
            ids.setdefault(("Company", name), ("Company", f"name:{name}"))
        elif fact.kind == "person":
            ids["Person", name] = ("Person", person_id(str(fact.values["name"]), scope))
    return ids


def _name(name: str) -> str:
    return " ".join(re.sub(r"[^\w&' ]+", " ", fold(name)).split())
