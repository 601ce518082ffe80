"""The queue contract on one SQLite file. Each method is one short transaction on the database's thread."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from datetime import timedelta
from functools import partial

from longshore.clock import Clock
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.extensions.shared_state import Entries, StateEntry
from longshore.extensions.transfer import Carried
from longshore.job import Attempt, Job, JobName, NewJob
from longshore.lease import Held, Lease, Want, WorkerId, lease_seconds
from longshore.media.sqlite import lanes, select, workers
from longshore.media.sqlite.claim import Taken, can_take, next_due, promote, take
from longshore.media.sqlite.database import Database
from longshore.media.sqlite.host_turns import HostTurns, Search
from longshore.media.sqlite.lease_clock import LeaseClock
from longshore.media.sqlite.settle import SettlementRows
from longshore.media.sqlite.shared_state import NewNotes, read_notes
from longshore.media.sqlite.submit import NewRows, identities_of
from longshore.media.sqlite.transfer import CarriedRows
from longshore.outcome import Settlement
from longshore.queue import Count, Reaped, Selection, Submitted, Traits, page_start
from longshore.stored import JsonObject, check_texts, encode
from longshore.system.first_of import first_of


class SqliteQueue:
    """A queue in one SQLite file; `longshore.queue.Queue` documents the methods."""

    traits = Traits(
        name="sqlite",
        spans_processes=True,
        spans_machines=False,
        wakes=True,
        takes_over=True,
        tracks_presence=True,
        shares_state=True,
        finds_payloads=True,
        quick_shared_state=True,
        one_clock=True,
    )

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._lease_clock = LeaseClock(clock, database)
        self._turns = HostTurns()

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        new = await self._database.write(NewRows(jobs, self._clock.now()).write)
        return Submitted(new, len(jobs) - new)

    async def claim(self, want: Want) -> list[Lease]:
        now, seconds = self._clock.now(), want.lease.total_seconds()
        until = await self._lease_clock.now() + seconds
        search = Search(want, self._turns)

        def claim(db: sqlite3.Connection) -> Taken | None:
            worker = workers.extend_leases(db, want.worker, until, seconds)
            return take(db, search, want.limit, worker) if promote(db, now) else None

        while (taken := await self._database.write(claim)) is None:
            pass
        return taken.leases(want.worker, now + seconds, self._database.uuid)

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        seconds = lease_seconds(lease)
        until = await self._lease_clock.now() + seconds
        return await self._database.write(
            lambda db: workers.held_leases(db, workers.extend_leases(db, worker, until, seconds))
        )

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        seconds = lease_seconds(lease)
        description = encode(info, "The info of a worker")
        until = await self._lease_clock.now() + seconds

        def register(db: sqlite3.Connection) -> list[Held]:
            number = workers.extend_leases(db, worker, until, seconds)
            workers.register(db, number, description)
            return workers.held_leases(db, number)

        return await self._database.write(register)

    async def deregister(self, worker: WorkerId) -> None:
        await self._database.write(lambda db: workers.deregister(db, worker))

    async def present_workers(self) -> list[PresentWorker]:
        now = await self._lease_clock.now()
        return await self._database.read(lambda db: workers.present(db, now))

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._database.write(SettlementRows(settlements, self._clock.now()).write)

    async def reap(self) -> Reaped:
        now, at = await self._lease_clock.now(), self._clock.now()
        # Usually no worker is silent, and reading that needs no write lock.
        if not await self._database.read(lambda db: workers.any_silent(db, now)):
            return Reaped()
        return await self._database.write(lambda db: workers.reap(db, now, at))

    async def stats(self, run: str | None = None) -> list[Count]:
        check_texts((run or "",), "The run")
        return await self._database.read(lambda db: lanes.stats(db, run))

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        now, start = self._clock.now(), page_start(after, limit)
        return await self._database.read(lambda db: select.jobs(db, selection, now, start, limit, self._database.uuid))

    async def payloads(self, run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        wanted = identities_of(run, names)
        return await self._database.read(lambda db: select.payloads(db, wanted))

    async def job_ids(self, run: str, names: Sequence[JobName]) -> list[str | None]:
        wanted = identities_of(run, names)
        return await self._database.read(lambda db: select.job_ids(db, wanted))

    async def history(self, job_id: str) -> list[Attempt]:
        return await self._database.read(lambda db: select.history(db, job_id))

    async def retry(self, selection: Selection) -> int:
        now = self._clock.now()
        return await self._database.write(lambda db: select.retry(db, selection, now))

    async def cancel(self, selection: Selection) -> int:
        now = self._clock.now()
        return await self._database.write(lambda db: select.cancel(db, selection, now))

    async def release(self, selection: Selection) -> int:
        now = self._clock.now()
        return await self._database.write(lambda db: select.release(db, selection, now))

    async def prune(self, selection: Selection) -> int:
        now = self._clock.now()
        return await self._database.write(lambda db: select.prune(db, selection, now))

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        new = await self._database.write(CarriedRows(carried, self._clock.now()).write)
        return Submitted(new, len(carried) - new)

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        check_texts((namespace, *(names or ())), "The name of a shared entry")
        return await self._database.read(lambda db: Entries(self._clock.now(), read_notes(db, namespace, names)))

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        check_texts((namespace,), "The name of a shared entry")
        return await self._database.write(NewNotes(namespace, entries).write)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        until = self._clock.monotonic() + timeout.total_seconds()
        # Separate turns: a look for jobs must not use up a host's turn.
        search = Search(want, HostTurns())
        while True:
            # Read the version before looking for jobs: any later commit changes it, so no wake-up is missed.
            version = self._database.version()
            found, due = await self._database.read(lambda db: (can_take(db, search), next_due(db)))
            if found:
                return True
            now = self._clock.now()
            if due is not None and due <= now:
                await self._database.write(partial(promote, now=now))
                continue
            left = until - self._clock.monotonic()
            if left <= 0:
                return False
            await self._sleep(left if due is None else min(left, due - now), version)

    async def close(self) -> None:
        await self._database.close()

    async def _sleep(self, seconds: float, version: int) -> None:
        """Sleep until a commit to the file, at most `seconds` seconds of the clock."""
        await first_of(self._database.change(version), self._clock.sleep(seconds))
