"""PostgreSQL as the suite knows it: a schema for each test, whose instants are moved instead of the clock.

A test gets the emptied schema of an earlier one, if there is one: to create and drop a schema takes longer than most
tests. Tests with processes get a new one, which is dropped: some are about its birth, and a process that was killed may
have left a statement that is still being executed.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import defaultdict
from collections.abc import Awaitable, Callable
from functools import cached_property
from typing import ClassVar

import asyncpg
from tests.services.postgres import find_binaries

from longshore.clock import SystemClock
from longshore.conformance import Harness
from longshore.media.postgres import PostgresQueue
from longshore.media.postgres.location import locate
from longshore.queue import Queue

_INSTANTS = (
    ("job", "submitted_at"),
    ("job", "not_before"),
    ("delayed", "due"),
    ("worker", "deadline"),
    ("done", "settled_at"),
    ("attempt", "ended_at"),
)


_EMPTY = """
set session_replication_role = replica;  -- in any order, whatever the tables refer to
do $$
declare stored text;
begin
  for stored in
    select format('%I.%I', schemaname, tablename) from pg_tables
    where schemaname = '{schema}' and tablename not in ('migration', 'queue_uuid') order by tablename
  loop
    execute format('lock table %s in access exclusive mode', stored);
    execute format('delete from %s', stored);
  end loop;
  update {quoted}.queue_uuid set uuid = replace(gen_random_uuid()::text, '-', '');
end $$"""


class PostgresHarness(Harness):
    examples = 15
    _emptied: ClassVar[defaultdict[str, list[str]]] = defaultdict(list)
    """The URLs of emptied queues, by database."""

    def __init__(self, database: str, *, reuse: bool = True) -> None:
        """With `reuse`, the schema may be that of an earlier test."""
        self._database = database
        self._reuse = reuse

    @cached_property
    def _url(self) -> str:
        if self._reuse and self._emptied[self._database]:
            return self._emptied[self._database].pop()
        return f"{self._database}?schema=conform_{secrets.token_hex(4)}"

    async def open(self) -> Queue:
        return await PostgresQueue.open(self._url, SystemClock())

    async def advance(self, seconds: float) -> None:
        location = locate(self._url)
        moves = (
            f"update {location.quoted_schema}.{table} set {at} = {at} - make_interval(secs => {seconds})"
            for table, at in _INSTANTS
        )
        await self._run(";".join([*moves, f"notify {location.channel}"]))

    def url_for_processes(self) -> str:
        self._reuse = False
        return self._url

    async def back_up(self) -> Callable[[], Awaitable[None]]:
        location = locate(self._url)
        dump = await self._program("pg_dump", f"--schema={location.schema}", location.dsn)

        async def restore() -> None:
            await self._drop()
            await self._program("psql", "--quiet", "--set=ON_ERROR_STOP=1", location.dsn, given=dump)

        return restore

    @staticmethod
    async def _program(name: str, *arguments: str, given: bytes = b"") -> bytes:
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(find_binaries() / name, *arguments, stdin=pipe, stdout=pipe)
        output, _ = await process.communicate(given)
        assert process.returncode == 0, f"{name} failed"
        return output

    async def close(self) -> None:
        if "_url" not in vars(self):
            return  # no queue was asked for
        if self._reuse:
            location = locate(self._url)
            await self._run(_EMPTY.format(schema=location.schema, quoted=location.quoted_schema))
            self._emptied[self._database].append(self._url)
        else:
            await self._drop()

    async def _drop(self) -> None:
        await self._run(f"drop schema if exists {locate(self._url).quoted_schema} cascade")

    async def _run(self, statements: str) -> None:
        connection = await asyncpg.connect(locate(self._url).dsn)
        try:
            await connection.execute(f"set client_min_messages = error; {statements}")
        finally:
            await connection.close()
