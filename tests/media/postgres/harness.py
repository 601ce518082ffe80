"""PostgreSQL as the suite knows it: a schema for each test, whose instants are moved instead of the clock."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

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


class PostgresHarness(Harness):
    examples = 15

    def __init__(self, url: str) -> None:
        self._url = url

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
        return self._url

    async def back_up(self) -> Callable[[], Awaitable[None]]:
        location = locate(self._url)
        dump = await self._program("pg_dump", f"--schema={location.schema}", location.dsn)

        async def restore() -> None:
            await self.close()
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
        await self._run(f"drop schema if exists {locate(self._url).quoted_schema} cascade")

    async def _run(self, statements: str) -> None:
        connection = await asyncpg.connect(locate(self._url).dsn)
        try:
            await connection.execute(f"set client_min_messages = error; {statements}")
        finally:
            await connection.close()
