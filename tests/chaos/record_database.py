"""A database for the records of a trial. A trigger refuses rows with records of the kind `odd`; a folder takes them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import psycopg
from tests.chaos.media import PostgresMedium, Switch, TrialMedium
from tests.services.postgres import PostgresServer

from longshore.media import open_records

CRASHED = "record database crashed"
_SCHEMA = "records"
_REFUSE = f"""
create function {_SCHEMA}.refuse_odd() returns trigger language plpgsql as $$
begin
    if 'odd' = any(new.kinds) then
        raise exception 'no odd records here' using errcode = 'invalid_parameter_value';
    end if;
    return new;
end
$$;
create trigger refuse_odd before insert or update on {_SCHEMA}.emitted
    for each row execute function {_SCHEMA}.refuse_odd();
"""


class RecordDatabase:
    """A PostgreSQL server for records; that of the queue, if the queue has one."""

    def __init__(self, queue: TrialMedium) -> None:
        self._own = None if isinstance(queue, PostgresMedium) else PostgresServer()
        server = queue.url if self._own is None else self._own.url
        self.url = f"{server}?schema={_SCHEMA}"
        asyncio.run(_make_tables(self.url))
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(_REFUSE)

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


async def _make_tables(url: str) -> None:
    await (await open_records(url)).close()
