"""The `Queue` contract on a folder. Each method that changes the queue makes one change in the journal."""

from __future__ import annotations

import asyncio
import contextvars
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path
from typing import TypeVar

from longshore.clock import Clock
from longshore.errors import QueueError, QueueUnavailableError
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.extensions.rejected import RejectedFiles
from longshore.extensions.shared_state import Entries, StateEntry
from longshore.extensions.transfer import Carried
from longshore.job import Attempt, Job, JobName, NewJob
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.media.directory.files import disk, folder, listing, rejected, wake
from longshore.media.directory.files.job_file import DamagedError
from longshore.media.directory.files.layout import Slot
from longshore.media.directory.journal.journal import STATE_CHANGE, Journal
from longshore.media.directory.journal.upgrade import upgrade_layout
from longshore.media.directory.ops import select
from longshore.media.directory.ops.claim import ClaimSearch, can_take, next_due, promote
from longshore.media.directory.ops.heartbeats import Workers
from longshore.media.directory.ops.host_turns import HostTurn
from longshore.media.directory.ops.presence import WorkerInfoFiles, encode_info
from longshore.media.directory.ops.reap import reap, reject, repair_counters
from longshore.media.directory.ops.reconcile import reconcile
from longshore.media.directory.ops.settle import SettleBatch
from longshore.media.directory.ops.shared_state import EntryFiles, read_state
from longshore.media.directory.ops.submit import Arrival, Arrivals
from longshore.outcome import Settlement
from longshore.queue import Count, Reaped, Selection, Submitted, Traits, page_start
from longshore.stored import JsonObject, check_texts
from longshore.system.first_of import first_of

T = TypeVar("T")

MAX_EMPTIED = 1_000
"""Empty folders to tolerate before a claim that found jobs also removes some of them.

A claim lists every empty folder that comes before the jobs it takes, so more of them would make claims slower.
"""


class DirectoryQueue:
    """See `longshore.queue.Queue` for what each method promises. Use it from one event loop."""

    traits = Traits(
        name="directory",
        spans_processes=True,
        spans_machines=True,
        wakes=True,
        takes_over=True,
        tracks_presence=True,
        shares_state=True,
        finds_payloads=True,
        keeps_rejected=True,
    )

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._root = str(path)
        self._clock = clock
        self._journal = Journal(self._root)
        self._workers = Workers(self._journal, clock)
        self._presence = WorkerInfoFiles(self._journal, self._workers)
        # One thread: the event loop never waits for the disk, and `Journal` is not thread-safe.
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="longshore-directory")
        self._process = os.getpid()
        self._turn = HostTurn.random()
        self._opened = False
        self._closed = False

    @classmethod
    async def open(cls, path: Path, clock: Clock) -> DirectoryQueue:
        """Open the queue in a folder. Raises a `QueueError` with the reason if the folder cannot be used.

        If the folder is not a queue yet, the first call that writes creates it; calls that only read create nothing.
        """
        queue = cls(path, clock)
        try:
            await queue._if_exists(lambda: None, None)
        except BaseException:
            queue._thread.shutdown()
            raise
        return queue

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        now = self._clock.now()
        return await self._insert("submit", [Arrival.new(job, now) for job in jobs])

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        return await self._insert("take over", [Arrival.carried(each) for each in carried])

    async def claim(self, want: Want) -> list[Lease]:
        now = self._clock.now()
        deadline = now + want.lease.total_seconds()

        def take() -> list[Lease]:
            # Heartbeat first: a claimed job must never be seen without a heartbeat of its worker.
            worker = self._workers.beat(want.worker, want.lease)
            promote(self._journal, now)
            claim = ClaimSearch(self._journal, want, worker, deadline, self._turn)
            leases = self._journal.transact("claim", claim.decide)
            if claim.miscounted and reconcile(self._journal, claim.miscounted) and not leases:
                # The listings were outdated; now they are fresh.
                leases = self._journal.transact("claim", claim.decide)
            self._turn = claim.last
            if not leases or len(self._journal.emptied) > MAX_EMPTIED:
                listing.remove_emptied(self._journal)
            return leases

        return await self._run(take)

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        return await self._run(lambda: self._held(self._workers.beat(worker, lease)))

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        content = encode_info(worker, info)

        def register() -> list[Held]:
            own = self._workers.beat(worker, lease)
            self._presence.add(worker, content)
            return self._held(own)

        return await self._run(register)

    async def deregister(self, worker: WorkerId) -> None:
        await self._if_exists(lambda: self._presence.remove(worker), None)

    async def present_workers(self) -> list[PresentWorker]:
        return await self._if_exists(self._presence.present, [])

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        batch = SettleBatch(self._journal, settlements, self._clock.now())
        refused = [False] * len(settlements)
        return await self._if_exists(lambda: self._journal.transact("settle", batch.decide), refused)

    async def reap(self) -> Reaped:
        now = self._clock.now()
        return await self._if_exists(lambda: reap(self._journal, self._workers, self._presence, now), Reaped())

    async def stats(self, run: str | None = None) -> list[Count]:
        check_texts((run or "",), "The run")

        def stats() -> list[Count]:
            lanes = [lane for lane in self._journal.refresh().lanes.values() if run is None or lane.run == run]
            return [
                Count(
                    run=lane.run,
                    kind=lane.kind,
                    partition=lane.partition,
                    pending=lane.counts[Slot.READY] + lane.counts[Slot.DELAYED],
                    claimed=lane.counts[Slot.CLAIMED],
                    completed=lane.counts[Slot.COMPLETED],
                    failed=lane.counts[Slot.FAILED],
                    cancelled=lane.counts[Slot.CANCELLED],
                )
                for lane in sorted(lanes, key=lambda lane: (lane.run, lane.kind, lane.partition))
                if any(lane.counts)
            ]

        return await self._if_exists(stats, [])

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        selector, start = self._selector(selection), page_start(after, limit)
        return await self._if_exists(lambda: selector.page(start, limit), [])

    async def payloads(self, run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")
        now = self._clock.now()
        return await self._if_exists(
            lambda: select.payloads(self._journal, self._workers, run, names, now), [None] * len(names)
        )

    async def job_ids(self, run: str, names: Sequence[JobName]) -> list[str | None]:
        check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")
        now = self._clock.now()
        return await self._if_exists(
            lambda: select.job_ids(self._journal, self._workers, run, names, now), [None] * len(names)
        )

    async def rejected(self, run: str | None = None) -> RejectedFiles:
        def count() -> int:
            lanes = {name: lane.run for name, lane in self._journal.refresh().lanes.items()}
            return rejected.count(self._root, run, lanes)

        return RejectedFiles(await self._if_exists(count, 0), f"{self._root}/rejected")

    async def history(self, job_id: str) -> list[Attempt]:
        return await self._if_exists(lambda: select.history(self._journal, job_id), [])

    async def retry(self, selection: Selection) -> int:
        selector = self._selector(selection)
        return await self._if_exists(lambda: select.retry(self._journal, selector), 0)

    async def cancel(self, selection: Selection) -> int:
        selector, now = self._selector(selection), self._clock.now()
        return await self._if_exists(lambda: select.cancel(self._journal, selector, now), 0)

    async def release(self, selection: Selection) -> int:
        selector = self._selector(selection)
        return await self._if_exists(lambda: select.release(self._journal, selector), 0)

    async def prune(self, selection: Selection) -> int:
        selector = self._selector(selection)
        return await self._if_exists(lambda: select.prune(self._journal, selector), 0)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        def check() -> tuple[bool, float | None, int]:
            n = self._journal.refresh().n
            if can_take(self._journal, want):
                return True, None, n
            if not any(lane.counts[Slot.DELAYED] for lane in self._journal.head.lanes.values()):
                return False, None, n
            n = self._journal.catch_up().n
            due = next_due(self._journal, want)
            if due is None or due > self._clock.now() or not want.without_hosts:
                return False, due, n
            # The folders of delayed jobs are sorted by time, not by host; excluded hosts show only in ready jobs.
            promote(self._journal, self._clock.now())
            n = self._journal.refresh().n
            return can_take(self._journal, want), next_due(self._journal, want), n

        until = self._clock.monotonic() + timeout.total_seconds()
        while True:
            found, due, n = await self._run(check)
            now = self._clock.now()
            if found or (due is not None and due <= now):
                return True
            left = until - self._clock.monotonic()
            if left <= 0:
                return False
            await self._sleep(left if due is None else min(left, due - now), n)

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        check_texts((namespace, *(names or ())), "The name of a shared entry")
        # Take the instant first: the entries may be newer than it, never older.
        now = self._clock.now()
        return Entries(now, await self._if_exists(lambda: read_state(self._journal, namespace, names), ()))

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        check_texts((namespace,), "The name of a shared entry")
        files = EntryFiles(self._journal, namespace, entries)

        def write() -> list[str | None]:
            answers = self._journal.transact(STATE_CHANGE, files.decide)
            files.remove_emptied()
            return answers

        return await self._run(write)

    async def close(self) -> None:
        if not self._closed:
            self._closed = True
            self._thread.shutdown()

    async def _sleep(self, seconds: float, n: int) -> None:
        """Return when the queue has changed after change number `n`, or after `seconds` of the clock."""
        change = wake.change(self._journal.watched(n), lambda: self._run(lambda: self._journal.changed(n)))
        await first_of(change, self._clock.sleep(seconds))

    async def _insert(self, what: str, jobs: Sequence[Arrival]) -> Submitted:
        arrivals = Arrivals(jobs)
        new = await self._run(
            lambda: self._journal.transact(what, lambda change, head: arrivals.add_to(self._journal, change, head))
        )
        return Submitted(new, len(jobs) - new)

    def _held(self, own: str) -> list[Held]:
        """Return the jobs that the worker with the folder `own` holds."""
        while True:
            n = self._journal.catch_up().n
            # A worker gives up the jobs that are missing here, so an outdated listing will not do.
            with listing.fresh(self._journal):
                held = [Held(str(file.number), file.epoch) for _, file, _ in listing.claimed(self._journal, own)]
            if self._journal.refresh().n == n:
                return held

    def _selector(self, selection: Selection) -> select.JobSelector:
        return select.JobSelector(self._journal, self._workers, selection, self._clock.now())

    async def _if_exists(self, work: Callable[[], T], default: T) -> T:
        """Return the answer of `work`, or `default` if the queue does not exist; never creates it."""
        return await self._in_thread(lambda: work() if self._opened or self._open_if_exists() else default)

    async def _run(self, work: Callable[[], T]) -> T:
        """Return the answer of `work`; creates the queue first if it does not exist."""

        def run() -> T:
            if not self._opened:
                self._open()
            return work()

        return await self._in_thread(run)

    def _open_if_exists(self) -> bool:
        """Open the queue if it exists by now, and return whether it is open."""
        if folder.is_queue(self._path):
            self._open()
        return self._opened

    def _open(self) -> None:
        known = folder.prepare(self._path)
        self._journal.uuid = folder.uuid_of(self._root)
        self._journal.open()
        if known < folder.FORMAT:
            upgrade_layout(self._journal)
            folder.write_marker(self._root)
        self._opened = True

    async def _in_thread(self, work: Callable[[], T]) -> T:
        if self._closed:
            raise QueueError(f"The queue '{self._root}' was closed. Open it again to use it.")
        if os.getpid() != self._process:
            raise QueueError(f"The queue '{self._root}' was opened before a fork. Open it in the new process.")
        # Use the caller's context, so that log lines of the thread carry the caller's fields.
        run = contextvars.copy_context().run
        return await asyncio.get_running_loop().run_in_executor(self._thread, run, self._do, work)

    def _do(self, work: Callable[[], T]) -> T:
        with disk.translated_errors(self._root):
            while True:
                try:
                    return work()
                except DamagedError as damaged:
                    # Reject the bad file and run `work` again without it, so that one file stops no process.
                    reject(self._journal, damaged)
                except disk.StaleListingError as stale:
                    raise QueueUnavailableError(
                        f"The volume under the queue '{self._root}' shows an outdated listing of '{stale}'. Try again "
                        "when its cache has expired."
                    ) from stale
                finally:
                    if self._journal.miscounted:
                        repair_counters(self._journal)
