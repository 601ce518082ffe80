"""The rate store in a file: the workers of one machine share a small database in the cache folder.

It serves queues that are too slow for several writes a second (a folder on a network drive, a repository). Each machine
then learns by itself which share of a host's rate it gets.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import cast

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.extensions.shared_state import ABSENT
from longshore.pacing.host_rate import HostRate
from longshore.pacing.store import StoredRate, decode_rate, may_forget
from longshore.system.cache_dir import cache_dir
from longshore.system.private_files import make_private

_PAGE = 500


def cache_file() -> Path:
    """Return the file in which the workers of this machine keep the rates of hosts: a cache, which may be deleted."""
    return cache_dir() / "pace.db"


class MachineRateStore:
    """A `RateStore` in a file, for all processes of one machine.

    Each call reads or writes a few rows of a small file, so it runs in the event loop. Calls raise
    `QueueUnavailableError` if the file cannot be used now.
    """

    per_machine = True

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._open: sqlite3.Connection | None = None

    async def read(self, name: str) -> StoredRate:
        row = self._one("select version, value from pace where name = ?", name)
        if row is None:
            return StoredRate(self._clock.now(), ABSENT, None)
        return StoredRate(self._clock.now(), str(row[0]), decode_rate(json.loads(str(row[1]))))

    async def write(self, name: str, version: str, host_rate: HostRate) -> str | None:
        value = msgspec.json.encode(host_rate).decode()
        if version == ABSENT:
            row = self._one(
                "insert into pace (name, version, value) values (?, ?, ?) on conflict do nothing returning version",
                name,
                int(self._clock.now() * 1e6),  # above every version that the entry had before it was deleted
                value,
            )
        else:
            row = self._one(
                "update pace set version = version + 1, value = ? where name = ? and version = ? returning version",
                value,
                name,
                int(version),
            )
        return None if row is None else str(row[0])

    async def close_host(self, host: str, until: float) -> None:
        self._all(
            "insert into closed (host, until) values (?, ?)"
            " on conflict (host) do update set until = max(until, excluded.until)",
            host,
            until,
        )

    async def closures(self) -> tuple[float, dict[str, float]]:
        now = self._clock.now()
        rows = self._all("select host, until from closed where until > ?", now)
        return now, {str(host): cast(float, until) for host, until in rows}

    async def all(self) -> tuple[float, dict[str, HostRate]]:
        rows = self._all("select name, value from pace")
        known = {str(name): decode_rate(json.loads(str(value))) for name, value in rows}
        return self._clock.now(), {name: host_rate for name, host_rate in known.items() if host_rate is not None}

    async def forget(self) -> int:
        now, last, deleted = self._clock.now(), "", 0
        self._all("delete from closed where until <= ?", now)
        page = "select name, version, value from pace where name > ? order by name limit ?"
        while rows := self._all(page, last, _PAGE):
            last = str(rows[-1][0])
            for name, version, value in rows:
                if may_forget(json.loads(str(value)), now):
                    gone = self._all("delete from pace where name = ? and version = ? returning 1", name, version)
                    deleted += len(gone)
            await asyncio.sleep(0)  # let other tasks of the event loop run between two pages
        return deleted

    def close(self) -> None:
        """Close the file. The next call opens it again."""
        if self._open is not None:
            self._open.close()
            self._open = None

    def _one(self, statement: str, *values: object) -> tuple[object, ...] | None:
        rows = self._all(statement, *values)
        return rows[0] if rows else None

    def _all(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        try:
            with closing(self._connection().execute(statement, values)) as cursor:
                return cursor.fetchall()
        except (sqlite3.Error, OSError) as error:
            self.close()
            raise QueueUnavailableError(
                f"{self._file}, which stores the request rates of hosts, cannot be used: {error}. It may be deleted."
            ) from error

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            make_private(self._file.parent)
            self._open = sqlite3.connect(self._file, timeout=2.0, isolation_level=None)
            # It is a cache: a power failure costs some seconds of learning.
            self._open.execute("pragma journal_mode = wal")
            self._open.execute("pragma synchronous = off")
            self._open.execute("create table if not exists pace (name text primary key, version int, value text)")
            self._open.execute("create table if not exists closed (host text primary key, until real)")
        return self._open
