"""A graph on a server that speaks Bolt: Neo4j, and others."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Self, TypeVar

from filings.config import Neo4j
from filings.graph.merge import write
from filings.graph.rows import Rows
from filings.graph.schema import NODES
from filings.graph.statements import Typed, as_is
from longshore import ConnectionFailedError, ProcessingError, retry
from longshore.errors import UsageError
from longshore.url import mask_url

if TYPE_CHECKING:
    from neo4j import Driver, ManagedTransaction

_T = TypeVar("_T")
_CONFLICT = re.compile(
    r"concurrent|conflict|deadlock|locked|duplicated? key|already exists|(?:record|node|entity) \S+ not found",
    re.IGNORECASE,
)
_TRIES = 8


class BoltGraph:
    """A graph on a server."""

    def __init__(self, server: Neo4j) -> None:
        self._server = server
        self._driver: Driver | None = None

    def describe(self) -> str:
        """As `Graph.describe`."""
        database = f", database {self._server.database}" if self._server.database else ""
        return f"Bolt server {mask_url(self._server.uri)}{database}"

    def __enter__(self) -> Self:
        """Connect, and make the constraints."""
        try:
            from neo4j import GraphDatabase
            from neo4j.exceptions import ConfigurationError
        except ImportError as error:
            raise UsageError("The driver of Neo4j is missing. Fix: pip install 'longshore[graph]'") from error
        server = self._server
        try:
            self._driver = GraphDatabase.driver(
                server.uri, auth=(server.user, server.password), connection_timeout=10, max_transaction_retry_time=30
            )
        except (ValueError, ConfigurationError) as error:
            raise UsageError(f"NEO4J_URI cannot be '{mask_url(server.uri)}': {error}") from error
        try:
            self._guarded(self._constrain)
        except BaseException:
            self._driver.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        """Disconnect."""
        if self._driver is not None:
            self._driver.close()

    def merge(self, rows: Rows) -> None:
        """As `Graph.merge`. A conflict with another worker is tried again, with growing waits."""
        self._guarded(lambda: self._write(rows))

    def query(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        """As `Graph.query`."""
        return self._guarded(lambda: self._read(statement, parameters))

    def _constrain(self) -> None:
        # It says at once that nothing answers; a statement would be tried for half a minute.
        self._opened().verify_connectivity()
        for label in NODES:
            name = f"{label.lower()}_id"
            self._read(f"CREATE CONSTRAINT {name} IF NOT EXISTS FOR (n:{label}) REQUIRE n.id IS UNIQUE", {})

    def _read(self, statement: str, parameters: dict[str, Any]) -> list[dict[str, Any]]:
        driver = self._opened()
        found = driver.execute_query(statement, parameters, database_=self._server.database)
        return [record.data() for record in found.records]

    def _write(self, rows: Rows) -> None:
        with self._opened().session(database=self._server.database) as session:
            session.execute_write(lambda transaction: write(_BoltTransaction(transaction), rows))

    def _opened(self) -> Driver:
        if self._driver is None:
            raise RuntimeError("The graph is not open.")
        return self._driver

    def _guarded(self, call: Callable[[], _T]) -> _T:
        """Return what the call returns. Errors that pass are tried again; others say what to change."""
        return retry(max_attempts=_TRIES, backoff_factor=2, exceptions=(_ConflictError,))(self._translated)(call)

    def _translated(self, call: Callable[[], _T]) -> _T:
        from neo4j.exceptions import AuthError, ConfigurationError, DriverError, Neo4jError, ServiceUnavailable

        where = mask_url(self._server.uri)
        try:
            return call()
        except AuthError as error:
            raise UsageError(
                f"{where} refuses the user '{self._server.user}'. Fix: NEO4J_USER and NEO4J_PASSWORD in .env"
            ) from error
        except ServiceUnavailable as error:
            raise ConnectionFailedError(
                f"{where} does not answer: {error}. Fix: start Neo4j, or set NEO4J_URI"
            ) from error
        except ConfigurationError as error:
            raise UsageError(f"NEO4J_URI cannot be '{where}': {error}") from error
        except Neo4jError as error:
            if error.is_retryable() or _CONFLICT.search(str(error)):
                raise _ConflictError(f"{where}: {error.message}") from error
            raise ProcessingError(f"{where} refuses a statement: {error.message}") from error
        except DriverError as error:
            raise ConnectionFailedError(f"{where}: {error}") from error


class _ConflictError(ConnectionFailedError):
    """Another worker changed the same nodes at the same time."""


class _BoltTransaction:
    def __init__(self, transaction: ManagedTransaction) -> None:
        self._transaction = transaction

    @property
    def typed(self) -> Typed:
        return as_is

    def call(self, statement: str, **parameters: Any) -> list[dict[str, Any]]:
        return [record.data() for record in self._transaction.run(statement, parameters)]
