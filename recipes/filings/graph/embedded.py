"""A graph in a file, without a server. One process at a time has it open; a lock lets the workers take turns."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

from filings.graph.merge import write
from filings.graph.rows import Rows
from filings.graph.schema import NODES, RELATIONS
from filings.graph.statements import Typed, cast
from longshore import ConnectionFailedError, ProcessingError
from longshore.errors import UsageError
from longshore.system.file_lock import FileLock

_PATIENCE = 120.0
"""Seconds to wait for a turn: a merge takes a fraction of one."""
_MEMORY = 256 << 20
"""Bytes that it may use; by default it would be most of the memory of the machine."""


class EmbeddedGraph:
    """A graph in a file."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._open = ExitStack()
        self._connection: Any = None

    def describe(self) -> str:
        """As `Graph.describe`."""
        return f"embedded graph {self._file}"

    def __enter__(self) -> Self:
        """Wait for the other processes that have it open, open it, and make its tables."""
        try:
            import ladybug
        except ImportError as error:
            raise UsageError(
                "The embedded graph needs LadybugDB. Fix: pip install 'longshore[graph]', or FILINGS_GRAPH=none in .env"
            ) from error
        self._file.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(self._file.with_name(f"{self._file.name}.lock"))
        with ExitStack() as opening:
            if not lock.acquire(timeout=_PATIENCE):
                raise ConnectionFailedError(f"{self._file} is in use by another process for {_PATIENCE:g} seconds")
            opening.callback(lock.release)
            try:
                database = ladybug.Database(str(self._file), buffer_pool_size=_MEMORY, max_num_threads=1)
                opening.callback(database.close)
                self._connection = ladybug.Connection(database)
                opening.callback(self._connection.close)
                self._make_tables()
            except RuntimeError as error:
                raise ProcessingError(f"{self._file} cannot be opened: {error}") from error
            self._open = opening.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """Close it, for the next one."""
        self._open.close()

    def merge(self, rows: Rows) -> None:
        """As `Graph.merge`."""
        self._call("BEGIN TRANSACTION", {})
        try:
            write(_EmbeddedTransaction(self._call), rows)
        except BaseException:
            self._call("ROLLBACK", {})
            raise
        self._call("COMMIT", {})

    def query(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        """As `Graph.query`."""
        return self._call(statement, parameters)

    def _call(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        try:
            result = self._connection.execute(statement, parameters)
        except RuntimeError as error:
            raise ProcessingError(f"{self._file} refuses a statement: {error}") from error
        names = result.get_column_names()
        found = [dict(zip(names, row, strict=True)) for row in result.get_all()]
        result.close()
        return found

    def _make_tables(self) -> None:
        there = {row["name"] for row in self._call("CALL show_tables() RETURN name", {})}
        if there >= NODES.keys() | RELATIONS.keys():
            return
        for label, properties in NODES.items():
            columns = "".join(f", {name} {kind}" for name, kind in properties.items())
            self._call(f"CREATE NODE TABLE IF NOT EXISTS {label}(id STRING PRIMARY KEY{columns})", {})
        for kind, relation in RELATIONS.items():
            ends = ", ".join(f"FROM {start} TO {end}" for start, end in relation.ends)
            columns = "".join(f", {name} {each}" for name, each in relation.properties.items())
            self._call(f"CREATE REL TABLE IF NOT EXISTS {kind}({ends}, key STRING, source STRING{columns})", {})


class _EmbeddedTransaction:
    def __init__(self, call: Callable[[str, dict[str, Any]], list[dict[str, Any]]]) -> None:
        self._call = call

    @property
    def typed(self) -> Typed:
        return cast

    def call(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        return self._call(statement, parameters)
