"""Merges a filing into a graph. To merge it again changes nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol, Self

from filings import config
from filings.facts.fact import Fact
from filings.graph.intervals import intervals
from filings.graph.rows import Row, Rows, rows_of
from filings.graph.statements import DROP_HELD, GONE, ROLES, SAID_OF, Typed, merge_nodes, merge_relations

BATCH = 500
"""Rows in one statement."""


class Transaction(Protocol):
    """A transaction of a graph."""

    @property
    def typed(self) -> Typed:
        """How values are written."""
        ...

    def call(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        """Carry out a statement, and return its rows."""
        ...


class Graph(Protocol):
    """A graph. Its methods raise `ConnectionFailedError` if it cannot be reached; that is tried again."""

    def merge(self, rows: Rows) -> None:
        """Merge the rows of a filing in one transaction."""
        ...

    def query(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return the rows of a statement that reads."""
        ...

    def describe(self) -> str:
        """Return what it is and where."""
        ...

    def __enter__(self) -> Self:
        """Open it, and see to its constraints or tables."""
        ...

    def __exit__(self, *error: object) -> None:
        """Close it."""
        ...


def open_graph() -> Graph | None:
    """Return the graph of the settings: a server, or a file; None if none is wanted."""
    server = config.neo4j()
    if server is not None:
        from filings.graph.bolt import BoltGraph

        return BoltGraph(server)
    file = config.graph_file()
    if file is None:
        return None
    from filings.graph.embedded import EmbeddedGraph

    return EmbeddedGraph(file)


def check_graph() -> str:
    """Return what the graph of the settings is. Raise a `LongshoreError` that says what is wrong with it."""
    graph = open_graph()
    if graph is None:
        return "no graph (FILINGS_GRAPH=none)"
    with graph:
        graph.query("MATCH (n:Filing) RETURN count(n) AS filings")
    return graph.describe()


def merge_filing(filing: Mapping[str, Any], facts: Iterable[Fact]) -> None:
    """Merge a filing and its facts into the graph of the settings, if there is one."""
    graph = open_graph()
    if graph is not None:
        with graph:
            graph.merge(rows_of(filing, facts))


def write(transaction: Transaction, rows: Rows) -> None:
    """Merge rows within a transaction, and make the intervals of their people again."""
    before = {row["person"] for row in transaction.call(SAID_OF, source=rows.source)}
    for label in sorted(rows.nodes):
        # All who merge lock the same nodes in the same order.
        _in_batches(transaction, merge_nodes(label, transaction.typed), sorted(rows.nodes[label].values(), key=_id))
    _drop_what_is_gone(transaction, rows)
    for (kind, start, end), found in sorted(rows.relations.items()):
        _in_batches(transaction, merge_relations(kind, start, end, transaction.typed), list(found.values()))
    _write_intervals(transaction, sorted(before.union(rows.people())))


def _drop_what_is_gone(transaction: Transaction, rows: Rows) -> None:
    kept = [row["key"] for found in rows.relations.values() for row in found.values()]
    # An empty list has no type.
    kept += [*rows.nodes.get("Event", {}), ""]
    for statement in GONE:
        transaction.call(statement, source=rows.source, kept=kept)


def _write_intervals(transaction: Transaction, people: Sequence[str]) -> None:
    if not people:
        return
    by_role: dict[tuple[str, str], list[Row]] = {}
    for row in transaction.call(ROLES, people=list(people)):
        by_role.setdefault((row["person"], row["company"]), []).append(row)
    held = [
        {
            "start_id": person,
            "end_id": company,
            "key": f"{each.title}|{each.valid_from}|{each.valid_to}",
            "source": None,
            "title": each.title,
            "valid_from": each.valid_from or None,
            "valid_to": each.valid_to or None,
        }
        for (person, company), roles in sorted(by_role.items())
        for each in intervals(roles)
    ]
    transaction.call(DROP_HELD, people=list(people))
    _in_batches(transaction, merge_relations("HELD", "Person", "Company", transaction.typed), held)


def _in_batches(transaction: Transaction, statement: str, rows: Sequence[Row]) -> None:
    for first in range(0, len(rows), BATCH):
        transaction.call(statement, rows=list(rows[first : first + BATCH]))


def _id(row: Row) -> str:
    return str(row["id"])
