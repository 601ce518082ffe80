"""The pace that a worker shares with others: through the queue where it is quick, else with all of this machine.

Where a queue is slow (a folder on a network drive, a repository), the workers of one machine share a small file in the
cache folder, and each machine learns by itself which share of a host's rate it gets.
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
from longshore.errors import LongshoreError, QueueUnavailableError
from longshore.extensions.find import find
from longshore.extensions.presence import WorkerRegistry
from longshore.extensions.shared_state import ABSENT, UNCHANGED, SharedState, StateEntry, update_entry
from longshore.pacing.batched_writes import AT_ONCE, BatchedWrites
from longshore.pacing.host_rate import HostRate, worth_keeping
from longshore.pacing.store import RateStore, StoredRate
from longshore.queue import Queue
from longshore.system.cache_dir import cache_dir

PACE, CLOSED, FORGOTTEN = "pace", "pace-closed", "pace-forgotten"
"""The shelves: a note for each host, one for each that is closed, which are few, and one that says when it was last
looked which hosts may be forgotten."""
FORGET_SECONDS = 600.0
"""How often that is, by all workers together: it takes reading all that is known."""
_ROLL_SECONDS = 30.0


def rate_store_for(queue: Queue, clock: Clock) -> RateStore:
    """Where the workers of this queue keep what they know of hosts."""
    state = find(queue, SharedState)
    if state is not None and queue.traits.quick_shared_state:
        return SharedRateStore(state)
    return MachineRateStore(cache_file(), clock)


class SharedRateStore:
    """A `RateStore` that is the notes of a queue."""

    def __init__(self, queue: SharedState) -> None:
        self._queue = queue
        self._gathered = BatchedWrites(queue, PACE)

    async def read(self, name: str) -> StoredRate:
        read = await self._queue.read_entries(PACE, frozenset({name}))
        note = read.get(name)
        return StoredRate(read.now, note.version, _standing(note.value))

    async def write(self, name: str, version: str, standing: HostRate) -> str | None:
        return await self._gathered.write(StateEntry(name, version, msgspec.to_builtins(standing)))

    async def close_host(self, host: str, until: float) -> None:
        async def close(note: StateEntry, _: float) -> object:
            closed_longer = note.value is not None and note.value["until"] >= until
            return UNCHANGED if closed_longer else {"until": until}

        busy = QueueUnavailableError(f"Too many workers at once close {host}. Trying again.")
        await update_entry(self._queue, CLOSED, host, close, busy)

    async def closures(self) -> tuple[float, dict[str, float]]:
        read = await self._queue.read_entries(CLOSED)
        over = [msgspec.structs.replace(note, value=None) for note in read.entries if note.value["until"] <= read.now]
        if over:
            await self._queue.swap_entries(CLOSED, over)
        return read.now, {note.name: note.value["until"] for note in read.entries if note.value["until"] > read.now}

    async def all(self) -> tuple[float, dict[str, HostRate]]:
        read = await self._queue.read_entries(PACE)
        return read.now, {note.name: known for note in read.entries if (known := _standing(note.value)) is not None}

    async def forget(self) -> int:
        looked = await self._queue.read_entries(FORGOTTEN, frozenset({PACE}))
        last = looked.get(PACE)
        if last.value is not None and 0 <= looked.now - last.value["at"] < FORGET_SECONDS:
            return 0
        if (await self._queue.swap_entries(FORGOTTEN, [StateEntry(PACE, last.version, {"at": looked.now})]))[0] is None:
            return 0  # another does it
        read = await self._queue.read_entries(PACE)
        old = [StateEntry(note.name, note.version, None) for note in read.entries if _is_old(note.value, read.now)]
        gone = 0
        for begin in range(0, len(old), AT_ONCE):
            answers = await self._queue.swap_entries(PACE, old[begin : begin + AT_ONCE])
            gone += sum(answer is not None for answer in answers)
        return gone


class MachineRateStore:
    """A `RateStore` in a file, for all processes of one machine.

    Every call is a few reads of a small file, so they are made in the event loop. Raises `QueueUnavailableError` where
    the file cannot be used now.
    """

    def __init__(self, file: Path, clock: Clock) -> None:
        self._file = file
        self._clock = clock
        self._open: sqlite3.Connection | None = None

    async def read(self, name: str) -> StoredRate:
        row = self._one("select version, value from pace where name = ?", name)
        if row is None:
            return StoredRate(self._clock.now(), ABSENT, None)
        return StoredRate(self._clock.now(), str(row[0]), _standing(json.loads(str(row[1]))))

    async def write(self, name: str, version: str, standing: HostRate) -> str | None:
        value = msgspec.json.encode(standing).decode()
        if version == ABSENT:
            row = self._one(
                "insert into pace (name, version, value) values (?, ?, ?) on conflict do nothing returning version",
                name,
                int(self._clock.now() * 1e6),  # above whatever it was before it was forgotten
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
        known = {str(name): _standing(json.loads(str(value))) for name, value in rows}
        return self._clock.now(), {name: standing for name, standing in known.items() if standing is not None}

    async def forget(self) -> int:
        now, last, gone = self._clock.now(), "", 0
        self._all("delete from closed where until <= ?", now)
        page = "select name, version, value from pace where name > ? order by name limit ?"
        while rows := self._all(page, last, AT_ONCE):
            last = str(rows[-1][0])
            for name, version, value in rows:
                if _is_old(json.loads(str(value)), now):
                    gone += len(self._all("delete from pace where name = ? and version = ? returning 1", name, version))
            await asyncio.sleep(0)  # whoever else is in this event loop has his turn between two pages
        return gone

    def close(self) -> None:
        """Let go of the file."""
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
                f"{self._file}, in which the pace of hosts is kept, cannot be used: {error}. It may be deleted."
            ) from error

    def _connection(self) -> sqlite3.Connection:
        if self._open is None:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            self._open = sqlite3.connect(self._file, timeout=2.0, isolation_level=None)
            # It is a cache: whoever pulls the plug loses some seconds of learning.
            self._open.execute("pragma journal_mode = wal")
            self._open.execute("pragma synchronous = off")
            self._open.execute("create table if not exists pace (name text primary key, version int, value text)")
            self._open.execute("create table if not exists closed (host text primary key, until real)")
        return self._open


class MachineCount:
    """How many machines work on a queue, going by what workers say on the roll; 1 where nobody says."""

    def __init__(self, queue: Queue, clock: Clock) -> None:
        self._queue = queue
        self._clock = clock
        self._number = 1

    def __call__(self) -> int:
        """As of the last look."""
        return self._number

    async def keep(self) -> None:
        """Look now and then, until cancelled."""
        # Not at the top: who only asks how far a run is would import it, too.
        import structlog

        log = structlog.get_logger()
        registry = find(self._queue, WorkerRegistry)
        while registry is not None:
            try:
                machines = {each.info.machine for each in await registry.present_workers()} - {None}
                self._number = max(len(machines), 1)
            except LongshoreError as error:
                log.debug("Which machines are at work could not be read", error=str(error))
            await self._clock.sleep(_ROLL_SECONDS)


def cache_file() -> Path:
    """Where the workers of this machine keep what they know of hosts: a cache, which may be deleted."""
    return cache_dir() / "pace.db"


def _is_old(value: object, now: float) -> bool:
    """Whether a note may go. One that cannot be read is another's business."""
    known = _standing(value)
    return known is not None and not worth_keeping(known, now)


def _standing(value: object) -> HostRate | None:
    """What a note says; one that cannot be read, of another version perhaps, is learned anew."""
    try:
        return None if value is None else msgspec.convert(value, HostRate)
    except msgspec.ValidationError:
        return None
