"""The queue contract on PostgreSQL: each method calls one database function in one transaction.

The functions and the tables are in `sql/`; this module converts values to their arguments and rows to values. All
instants come from the database's clock.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Self

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.extensions.presence import PresentWorker, WorkerInfo, worker_info
from longshore.extensions.shared_state import Entries, StateEntry
from longshore.extensions.transfer import Carried, decode_came_from
from longshore.job import Attempt, Job, JobName, NewJob, State, number_of
from longshore.lease import Held, Lease, Want, WorkerId, lease_seconds
from longshore.media.postgres import lookup
from longshore.media.postgres.bulk import MIN_COPY_JOBS, copy_in
from longshore.media.postgres.claim_marks import ClaimMarks
from longshore.media.postgres.columns import (
    BatchLease,
    NewJobs,
    Settlements,
    decode_failure,
    decode_parent,
    host_number,
    job_of,
    selection_columns,
    sort_settlements,
    unzipped,
)
from longshore.media.postgres.connections import Connections, Row, open_session, terminated_on_failure
from longshore.media.postgres.location import DatabaseLocation, locate
from longshore.media.postgres.schema import migrate_session, uuid_of
from longshore.media.postgres.transfer import CarriedJobs
from longshore.media.postgres.user_transaction import call_in
from longshore.media.postgres.wake import NotificationListener, NotificationSender, announce
from longshore.outcome import Settlement
from longshore.queue import Count, Reaped, Selection, SettleAnswers, Submitted, Traits, page_start
from longshore.stored import JsonObject, check_texts, encode

FOLD_EVERY = 200
"""Number of calls that add rows to `tally` before `fold` adds them to the counters."""
CHUNK = 2000
"""Maximum number of jobs that are retried, cancelled or pruned in one transaction."""
TYPES = {
    name: types.split()
    for name, types in {
        "claim": "text text float8 int text text[] text[] bigint[] bigint bool int[] int[] bigint[] bigint[]",
        "renew": "text text float8 json",
        "sign_out": "text",
        "present": "",
        "reap": "",
        "fold": "",
        "stats": "text",
        "history": "bigint",
        "lane_names": "int[]",
        "claimable": "text text[] text[] bigint[]",
        "selected": "text bigint[] text[] text[] text[] text float8 bigint int",
        "selected_ids": "text bigint[] text[] text[] text[] text float8 bigint int",
        "retry_jobs": "bigint[]",
        "cancel_jobs": "bigint[]",
        "release_jobs": "bigint[]",
        "prune_jobs": "bigint[]",
        "read_notes": "text text[]",
        "write_notes": "text text[] text[] json[]",
    }.items()
}
"""The database functions and their argument types; those of `submit` and `settle` are defined with their columns."""
_decode = msgspec.json.decode


class PostgresQueue:
    """A queue in a schema of a PostgreSQL database; `longshore.queue.Queue` documents the methods."""

    traits = Traits(
        name="postgres",
        spans_processes=True,
        spans_machines=True,
        wakes=True,
        takes_over=True,
        tracks_presence=True,
        shares_state=True,
        finds_payloads=True,
        quick_shared_state=True,
        one_clock=True,
    )

    def __init__(self, location: DatabaseLocation, clock: Clock, uuid: str) -> None:
        self._location = location
        self._uuid = uuid
        self._clock = clock
        self._connections = Connections(location)
        self._sender = NotificationSender(self._notify)
        self._listener = NotificationListener(location, clock)
        self._marks = ClaimMarks()
        self._lanes: dict[int, tuple[str, str, str]] = {}
        self._unfolded = 0
        self._submit = location.call("submit", *NewJobs.types())
        self._take_over = location.call("take_over", *CarriedJobs.types())
        self._settle = location.call("settle", *Settlements.types())

    @classmethod
    async def open(cls, url: str, clock: Clock) -> Self:
        """Connect; create or migrate the schema if needed. Raises at once, without retries, if that fails."""
        location = locate(url)
        session = await open_session(location)
        with terminated_on_failure(session.connection):
            await migrate_session(session, location)
            uuid = await uuid_of(session, location)
        queue = cls(location, clock, uuid)
        queue._connections.adopt(session)
        return queue

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        if not jobs:
            return Submitted(0, 0)
        if len(jobs) >= MIN_COPY_JOBS and await self._copy(jobs):
            new = len(jobs)
        else:
            call = self._notifying_if_due(self._submit, NewJobs.of(jobs), announce(jobs))
            new = (await self._connections.fetch(*call))[0][0]
        await self._fold_if_due()
        return Submitted(new, len(jobs) - new)

    async def _copy(self, jobs: Sequence[NewJob]) -> bool:
        notify = self._sender.due()
        return await self._connections.run(lambda session: copy_in(session, self._location, jobs, notify=notify))

    async def submit_in(self, connection: Any, jobs: Sequence[NewJob]) -> Submitted:
        """Submit on your own connection (asyncpg, or psycopg's async one), in the transaction that is open on it.

        The jobs exist once you commit, together with everything else you wrote, and never if you roll back.
        """
        if not jobs:
            return Submitted(0, 0)
        call = self._notifying(self._submit, NewJobs.of(jobs), announce(jobs))
        rows = await call_in(connection, self._location, *call)
        return Submitted(rows[0][0], len(jobs) - rows[0][0])

    async def claim(self, want: Want) -> list[Lease]:
        if want.limit < 1:
            return []
        start = self._marks.start(want)
        rows = await self._call(
            "claim",
            want.worker.incarnation,
            want.worker.label,
            want.lease.total_seconds(),
            want.limit,
            *_filters(want),
            start.behind,
            start.suspicious,
            *start.marks,
        )
        start.record(rows, want.limit)
        leases = await self._leases(rows, want)
        if start.marked and len(leases) < want.limit:
            # No more jobs after the marks: fill the rest with a search from the beginning.
            leases += await self.claim(msgspec.structs.replace(want, limit=want.limit - len(leases)))
        return leases

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        return await self._renew(worker, lease, None)

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        return await self._renew(worker, lease, encode(info, "The info of a worker").decode())

    async def deregister(self, worker: WorkerId) -> None:
        await self._call("sign_out", worker.incarnation, repeatable=True)

    async def present_workers(self) -> list[PresentWorker]:
        rows = await self._call("present", repeatable=True)
        return [
            PresentWorker(WorkerId(row["label"], row["incarnation"]), worker_info(_decode(row["about"])))
            for row in rows
        ]

    async def _renew(self, worker: WorkerId, lease: timedelta, about: str | None) -> list[Held]:
        arguments = (worker.incarnation, worker.label, lease_seconds(lease), about)
        rows = await self._call("renew", *arguments, repeatable=True)
        return [Held(str(row[0]), row[1]) for row in rows]

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        if not settlements:
            return []
        work = sort_settlements(settlements)
        call = self._notifying_if_due(self._settle, work.columns) if work.adds_work else (self._settle, *work.columns)
        rows = await self._connections.fetch(*call)
        await self._fold_if_due()
        accepted = work.answer(len(settlements), rows[0]["completed"], rows[0]["others"])
        # Which jobs were left out is not known, only whether any was.
        return accepted if rows[0]["duplicates"] else SettleAnswers(accepted, ())

    async def settle_in(self, connection: Any, settlements: Sequence[Settlement]) -> list[bool]:
        """Settle on your own connection, in the transaction that is open on it: your writes and the settlement are
        committed together. If an answer is False, the lease was lost: roll back, because another worker does the job.
        """
        if not settlements:
            return []
        work = sort_settlements(settlements)
        rows = await call_in(connection, self._location, *self._notifying(self._settle, work.columns))
        return work.answer(len(settlements), rows[0][0], rows[0][1])

    async def reap(self) -> Reaped:
        (row,) = await self._call("reap", repeatable=True)
        await self._call("fold", repeatable=True)
        if row["returned"]:
            await self._notify()
        return Reaped(row["returned"], row["failed"])

    async def stats(self, run: str | None = None) -> list[Count]:
        check_texts((run or "",), "The run")
        return [Count(**row) for row in await self._call("stats", run, repeatable=True)]

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        page = (page_start(after, limit), limit)
        rows = await self._call("selected", *selection_columns(selection), *page, repeatable=True)
        return [job_of(row, self._uuid) for row in rows]

    async def payloads(self, run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        return await lookup.payloads(self._connections, self._location, run, names)

    async def job_ids(self, run: str, names: Sequence[JobName]) -> list[str | None]:
        return await lookup.job_ids(self._connections, self._location, run, names)

    async def history(self, job_id: str) -> list[Attempt]:
        rows = await self._call("history", number_of(job_id), repeatable=True)
        return [Attempt(**{**row, "failure": decode_failure(row["failure"])}) for row in rows]

    async def retry(self, selection: Selection) -> int:
        changed = await self._each("retry_jobs", selection, {State.FAILED, State.CANCELLED})
        if changed:
            await self._notify()
        return changed

    async def cancel(self, selection: Selection) -> int:
        return await self._each("cancel_jobs", selection, {State.PENDING, State.CLAIMED})

    async def release(self, selection: Selection) -> int:
        changed = await self._each("release_jobs", selection, {State.CLAIMED})
        if changed:
            await self._notify()
        return changed

    async def prune(self, selection: Selection) -> int:
        return await self._each("prune_jobs", selection, {State.COMPLETED, State.FAILED, State.CANCELLED})

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        if not carried:
            return Submitted(0, 0)
        rows = await self._connections.fetch(*self._notifying_if_due(self._take_over, CarriedJobs.of(carried)))
        await self._fold_if_due()
        return Submitted(rows[0][0], len(carried) - rows[0][0])

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        check_texts((namespace, *(names or ())), "The name of a shared entry")
        ((at, *columns),) = await self._call(
            "read_notes", namespace, None if names is None else sorted(names), repeatable=True
        )
        found = zip(*(column or () for column in columns), strict=True)
        return Entries(at, tuple(StateEntry(name, version, _decode(value)) for name, version, value in found))

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        check_texts((namespace,), "The name of a shared entry")
        rows = [
            (entry.name, entry.version, None if entry.value is None else encode(entry.value, "A shared entry").decode())
            for entry in entries
        ]
        if not rows:
            return []
        ((answers,),) = await self._call("write_notes", namespace, *unzipped(rows, 3))
        return list(answers)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        until = self._clock.monotonic() + timeout.total_seconds()
        while True:
            await self._listener.open()
            self._listener.clear()
            (row,) = await self._call("claimable", *_filters(want), repeatable=True)
            if row["ready_now"]:
                self._listener.reset_interval()
                return True
            left = until - self._clock.monotonic()
            if left <= 0:
                return False
            await self._listener.sleep(left if row["due_in"] is None else min(left, row["due_in"]))
            if self._listener.named(want):
                self._listener.reset_interval()
                return True

    async def close(self) -> None:
        await self._sender.close()
        await self._listener.close()
        await self._connections.close()

    async def _call(self, function: str, *arguments: Any, repeatable: bool = False) -> list[Row]:
        statement = self._location.call(function, *TYPES[function])
        return await self._connections.fetch(statement, *arguments, repeatable=repeatable)

    async def _leases(self, rows: list[Row], want: Want) -> list[Lease]:
        missing = {row["lane"] for row in rows} - self._lanes.keys()
        if missing:
            await self._load_lane_names(missing)
        label = want.worker.label
        leases: list[Lease] = []
        for (
            batch,
            deadline,
            _,
            _,
            _,
            job,
            epoch,
            _,
            lane,
            key,
            payload,
            priority,
            host,
            attempts,
            limit,
            at,
            parent,
            depth,
            failure,
            came_from,
        ) in rows:
            run, kind, partition = self._lanes[lane]
            claimed = Job(
                id=str(job),
                run=run,
                kind=kind,
                key=key,
                payload=_decode(payload),
                priority=priority,
                partition=partition,
                host=host,
                parent=decode_parent(parent),
                depth=depth,
                state=State.CLAIMED,
                epoch=epoch,
                attempts=attempts,
                max_attempts=limit,
                submitted_at=at,
                worker=label,
                failure=None if failure is None else decode_failure(failure),
                queue=self._uuid,
                came_from=decode_came_from(came_from),
            )
            leases.append(BatchLease(claimed, want.worker, deadline, batch))
        return leases

    async def _load_lane_names(self, lanes: set[int]) -> None:
        """Load the names of lanes. Each is loaded once: lanes are never renamed or deleted."""
        rows = await self._call("lane_names", sorted(lanes), repeatable=True)
        self._lanes.update((row["lane"], (row["run"], row["kind"], row["partition"])) for row in rows)

    async def _each(self, function: str, selection: Selection, states: set[State]) -> int:
        """Apply a function to the selected jobs in one of these states, one chunk per transaction; return the total."""
        wanted = frozenset(states if selection.states is None else states & selection.states)
        columns = selection_columns(msgspec.structs.replace(selection, states=wanted))
        changed = after = 0
        while True:
            found = await self._call("selected_ids", *columns, after, CHUNK, repeatable=True)
            ids = [row[0] for row in found]
            if not ids:
                return changed
            rows = await self._call(function, ids)
            changed += rows[0][0]
            after = max(ids)
            await self._fold_if_due()

    async def _fold_if_due(self) -> None:
        self._unfolded += 1
        if self._unfolded >= FOLD_EVERY:
            self._unfolded = 0
            await self._call("fold", repeatable=True)

    def _notifying_if_due(self, statement: str, columns: tuple[Any, ...], payload: str = "") -> tuple[Any, ...]:
        return self._notifying(statement, columns, payload) if self._sender.due() else (statement, *columns)

    def _notifying(self, statement: str, columns: tuple[Any, ...], payload: str = "") -> tuple[Any, ...]:
        """Return the statement with a notification that is sent if and only if its transaction commits."""
        size = len(columns)
        notifying = statement.replace("select s.*", f"select s.*, pg_notify(${size + 1}, ${size + 2})", 1)
        return notifying, *columns, self._location.channel, payload

    async def _notify(self) -> None:
        # If the database is unavailable, no process can be woken; the waiting processes poll later.
        with suppress(QueueUnavailableError):
            await self._connections.fetch("select pg_notify($1, '')", self._location.channel)


def _filters(want: Want) -> tuple[str | None, list[str] | None, list[str] | None, list[int]]:
    return (
        want.run,
        None if want.kinds is None else sorted(want.kinds),
        None if want.partitions is None else sorted(want.partitions),
        sorted(host_number(host) for host in want.without_hosts),
    )
