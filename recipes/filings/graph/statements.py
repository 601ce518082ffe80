"""The Cypher that merges rows. Both graphs take it; one of them wants to be told the type of each value."""

from __future__ import annotations

from collections.abc import Callable

from filings.graph.schema import NODES, RELATIONS

Typed = Callable[[str, str], str]
"""Writes a value with its type, where that is needed."""


def as_is(value: str, kind: str) -> str:
    """Return the value as it is."""
    del kind
    return value


def cast(value: str, kind: str) -> str:
    """Return the value with its type."""
    return f"CAST({value} AS {kind})"


def merge_nodes(label: str, typed: Typed) -> str:
    """Return the statement for nodes of a label. A value that is not known does not replace one that is."""
    values = ", ".join(
        f"n.{name} = coalesce({typed(f'row.{name}', kind)}, n.{name})" for name, kind in NODES[label].items()
    )
    return f"UNWIND $rows AS row MERGE (n:{label} {{id: row.id}}) SET {values}"


def merge_relations(kind: str, start: str, end: str, typed: Typed) -> str:
    """Return the statement for relations of a type between nodes of two labels."""
    named = {"source": "STRING", **RELATIONS[kind].properties}
    values = ", ".join(f"r.{name} = {typed(f'row.{name}', each)}" for name, each in named.items())
    return (
        f"UNWIND $rows AS row MATCH (a:{start} {{id: row.start_id}}), (b:{end} {{id: row.end_id}}) "
        f"MERGE (a)-[r:{kind} {{key: row.key}}]->(b) SET {values}"
    )


_MENTIONED = "MATCH (f:Filing {id: $source})<-[:MENTIONED_IN]-"
_OF_FILING = ("MENTIONED_IN", "FILED")
_SAID = "|".join(kind for kind in RELATIONS if kind not in (*_OF_FILING, "HAPPENED_AT", "HELD"))
GONE = (
    f"{_MENTIONED}(a)-[r:{_SAID}]->(b) WHERE r.source = $source AND NOT r.key IN $kept DELETE r",
    f"{_MENTIONED}(c:Company)<-[:HAPPENED_AT]-(n:Event) WHERE n.source = $source AND NOT n.id IN $kept DETACH DELETE n",
    f"MATCH (a)-[r:{'|'.join(_OF_FILING)}]->(f:Filing {{id: $source}}) WHERE NOT r.key IN $kept DELETE r",
)
"""Remove what an earlier reading of the filing found, and this one did not. All of it is found from the filing, because
a graph of millions of relations cannot be searched for each."""
SAID_OF = f"{_MENTIONED}(a:Person)-[r:HAS_ROLE]->(b:Company) WHERE r.source = $source RETURN DISTINCT a.id AS person"
ROLES = (
    "MATCH (a:Person)-[r:HAS_ROLE]->(b:Company) WHERE a.id IN $people RETURN a.id AS person, b.id AS company, "
    "r.title AS title, r.action AS action, r.valid_from AS valid_from, r.valid_to AS valid_to"
)
DROP_HELD = "MATCH (a:Person)-[r:HELD]->(b:Company) WHERE a.id IN $people DELETE r"
