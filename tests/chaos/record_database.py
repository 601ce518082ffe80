"""A database for the records of a trial. It refuses rows whose kind has the character NUL; a folder takes them."""

from __future__ import annotations

from collections.abc import Mapping

from tests.chaos.media import PostgresMedium, Switch, TrialMedium
from tests.services.postgres import PostgresServer

CRASHED = "record database crashed"


class RecordDatabase:
    """A PostgreSQL server for records; that of the queue, if the queue has one."""

    def __init__(self, queue: TrialMedium) -> None:
        self._own = None if isinstance(queue, PostgresMedium) else PostgresServer()
        self.url = f"{queue.url if self._own is None else self._own.url}?schema=records"

    def faults(self) -> Mapping[str, Switch]:
        """Return the faults of the server, if it is not that of the queue."""
        return {} if self._own is None else {CRASHED: self._crash}

    def _crash(self, on: bool) -> None:
        if self._own is not None and on:
            self._own.restart("immediate")

    def close(self) -> None:
        """Remove the server."""
        if self._own is not None:
            self._own.remove()
