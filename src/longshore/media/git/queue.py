"""The `Queue` contract on a branch of a git repository. Calls that arrive during a push share the next push."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, Self, TypeVar

from longshore.clock import Clock
from longshore.extensions.archive import Month
from longshore.extensions.presence import PresentWorker, WorkerInfo
from longshore.extensions.rejected import RejectedFiles
from longshore.extensions.shared_state import Entries, StateEntry
from longshore.extensions.transfer import Carried
from longshore.job import Attempt, Job, JobName, NewJob, number_of
from longshore.lease import Held, Lease, Want, WorkerId
from longshore.media.git.location import RepositoryLocation
from longshore.media.git.objects import mirror as mirrors
from longshore.media.git.objects.mirror import Mirror
from longshore.media.git.state.branch_files import REJECTED
from longshore.media.git.state.branch_state import BranchState
from longshore.media.git.state.operations import (
    Archive,
    Cancel,
    Claim,
    Deregister,
    Operation,
    Prune,
    Reap,
    Register,
    Release,
    Renew,
    Retry,
    Settle,
    Submit,
    SwapEntries,
    TakeOver,
)
from longshore.media.git.state.selection import selected
from longshore.media.git.sync.branch_sync import BranchSync, Refused, Traffic
from longshore.media.git.sync.faults import unusable
from longshore.outcome import Settlement
from longshore.queue import Count, Reaped, Selection, Submitted, Traits, page_start
from longshore.stored import JsonObject, check_texts
from longshore.system.first_of import first_of

T = TypeVar("T")

LOOK_EVERY = 0.05
"""Seconds between two checks, while waiting, for a push from this machine or to a repository on this machine."""
ASK_FIRST, ASK_SLOWEST = 0.5, 8.0
"""Seconds before a waiting worker first asks a remote on another machine, and the longest interval between requests."""


class GitQueue:
    """A git queue. See `longshore.queue.Queue` and `longshore.extensions` for the contract of each method, and
    `branch_sync` for the protocol."""

    traits = Traits(
        name="git",
        spans_processes=True,
        spans_machines=True,
        wakes=True,
        takes_over=True,
        tracks_presence=True,
        shares_state=True,
        finds_payloads=True,
        archives=True,
        counts_lost_claims=True,
        keeps_rejected=True,
    )

    def __init__(self, sync: BranchSync, thread: ThreadPoolExecutor, clock: Clock) -> None:
        self._sync = sync
        self._thread = thread
        self._clock = clock
        self._queued: list[tuple[Operation[Any], asyncio.Future[Any]]] = []
        self._runner: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, url: str, clock: Clock, cache: Path) -> Self:
        """Open the queue in a repository, with its mirror in `cache`."""
        location = RepositoryLocation(url)
        # One thread: it waits for git, and `BranchSync` and `BranchState` are not thread-safe.
        thread = ThreadPoolExecutor(1, thread_name_prefix="longshore-git")

        def start() -> BranchSync:
            sync = BranchSync(Mirror(location, cache), clock)
            try:
                sync.open()
            except BaseException as error:
                sync.mirror.close()
                if isinstance(error, OSError):
                    raise unusable(sync.mirror.folder, error) from error
                raise
            return sync

        try:
            sync = await asyncio.get_running_loop().run_in_executor(thread, start)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(sync, thread, clock)

    @property
    def traffic(self) -> Traffic:
        """The pushes, refused pushes and fetches of this open queue."""
        return self._sync.traffic

    async def claim_success_rate(self) -> float:
        meta = await self._read(lambda state: state.meta)
        return meta.claims / max(1, meta.claims + meta.lost_races) if meta.claims else 1.0

    async def rejected(self, run: str | None = None) -> RejectedFiles:
        return RejectedFiles(await self._read(lambda state: state.rejected(run)), f"{REJECTED}/ of its branch")

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        return await self._perform(Submit(jobs, self._clock.now())) if jobs else Submitted(0, 0)

    async def claim(self, want: Want) -> list[Lease]:
        return await self._perform(Claim(want))

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        return await self._perform(Renew(worker, lease))

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        return await self._perform(Register(worker, lease, info))

    async def deregister(self, worker: WorkerId) -> None:
        await self._perform(Deregister(worker))

    async def present_workers(self) -> list[PresentWorker]:
        return await self._read(lambda state: state.heartbeats.present())

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._perform(Settle(settlements)) if settlements else []

    async def reap(self) -> Reaped:
        # Usually no worker is silent and nothing was edited, and that check needs no push.
        if not await self._read(lambda state: state.silent() or state.jobs.strays or state.lanes.miscounted):
            return Reaped()
        return await self._perform(Reap())

    async def stats(self, run: str | None = None) -> list[Count]:
        check_texts((run or "",), "The run")
        return await self._read(lambda state: _counts(state, run))

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        now, start = self._clock.now(), page_start(after, limit)

        def page(state: BranchState) -> list[Job]:
            found = selected(state, selection, now, after=start)
            return [record.job(place, state.uuid, state.holder(place)) for place, record in islice(found, limit)]

        return await self._read(page)

    async def payloads(self, run: str, names: Sequence[JobName]) -> list[JsonObject | None]:
        check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")

        def payloads(state: BranchState) -> list[JsonObject | None]:
            found = (state.named(run, name.kind, name.key) for name in names)
            return [None if record is None else record.payload for record in found]

        return await self._read(payloads)

    async def job_ids(self, run: str, names: Sequence[JobName]) -> list[str | None]:
        check_texts((run, *(text for name in names for text in (name.kind, name.key))), "The name of a job")

        def numbers(state: BranchState) -> list[str | None]:
            found = (state.place_named(run, name.kind, name.key) for name in names)
            return [None if place is None else str(place.number) for place in found]

        return await self._read(numbers)

    async def history(self, job_id: str) -> list[Attempt]:
        def history(state: BranchState) -> list[Attempt]:
            place = state.find(number_of(job_id))
            record = state.record(place) if place is not None else None
            return record.history if record is not None else []

        return await self._read(history)

    async def retry(self, selection: Selection) -> int:
        return await self._perform(Retry(selection))

    async def cancel(self, selection: Selection) -> int:
        return await self._perform(Cancel(selection))

    async def release(self, selection: Selection) -> int:
        return await self._perform(Release(selection))

    async def prune(self, selection: Selection) -> int:
        return await self._perform(Prune(selection))

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        return await self._perform(TakeOver(carried)) if carried else Submitted(0, 0)

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        check_texts((namespace, *(names or ())), "The name of a shared entry")
        # Take the instant first: the entries may be newer than it, never older.
        now = self._clock.now()
        return Entries(now, await self._read(lambda state: state.entries.read(namespace, names)))

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        check_texts((namespace,), "The name of a shared entry")
        return await self._perform(SwapEntries(namespace, entries)) if entries else []

    async def archive(self, selection: Selection) -> int:
        return await self._perform(Archive(selection))

    async def archived(self) -> list[Month]:
        return await self._read(lambda state: state.archived())

    async def forget_history(self) -> None:
        # A new generation is a new branch with the same files; see `branches`.
        await self._in_thread(self._sync.new_generation)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        until = self._clock.monotonic() + timeout.total_seconds()
        ask = ASK_FIRST
        while True:
            # Take the token before the check: every later push changes the token, so that no wake-up is missed.
            token = self._sync.change_token()
            now = self._clock.now()
            found, due = await self._read(partial(_prospects, want=want, now=now))
            if found:
                return True
            left = until - self._clock.monotonic()
            if left <= 0:
                return False
            if due is not None and due <= now:
                continue
            ask = await self._sleep(left if due is None else min(left, due - now), token, ask)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._runner is not None:
            await self._runner
        await asyncio.get_running_loop().run_in_executor(self._thread, self._sync.mirror.close)
        self._thread.shutdown()

    async def _perform(self, operation: Operation[T]) -> T:
        """Return the operation's answer, once it is part of the branch."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._queued.append((operation, answer))
        if self._runner is None:
            self._runner = asyncio.create_task(self._run_batches())
        return await answer

    async def _run_batches(self) -> None:
        """Perform all queued operations as one batch, and repeat until none is queued."""
        try:
            while self._queued:
                batch, self._queued = self._queued, []
                operations = [operation for operation, _ in batch]
                try:
                    answers = await self._in_thread(partial(self._sync.perform, operations))
                except asyncio.CancelledError:
                    for _, waiting in batch:
                        waiting.cancel()
                    raise
                except Exception as error:  # noqa: BLE001 - handed to every caller of the batch
                    for _, waiting in batch:
                        if not waiting.done():
                            waiting.set_exception(error)
                    continue
                for (_, waiting), answer in zip(batch, answers, strict=True):
                    if waiting.done():
                        continue
                    if isinstance(answer, Refused):
                        waiting.set_exception(answer.reason)
                    else:
                        waiting.set_result(answer)
        finally:
            self._runner = None

    async def _read(self, query: Callable[[BranchState], T]) -> T:
        return await self._in_thread(lambda: query(self._sync.fresh_state()))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except OSError as error:
            # All files that the thread reads and writes are in the mirror.
            raise unusable(self._sync.mirror.folder, error) from error

    async def _sleep(self, seconds: float, token: tuple[str, str | None], ask: float) -> float:
        """Return after a possible push or after `seconds` of the clock. The answer is the next `ask` interval."""
        await first_of(self._change(token, ask), self._clock.sleep(seconds))
        return ASK_FIRST if self._sync.change_token() != token else min(ask * 1.5, ASK_SLOWEST)

    async def _change(self, token: tuple[str, str | None], ask: float) -> None:
        # In real time, not by the injected clock: other processes push in real time.
        began = mirrors.now()
        while self._sync.change_token() == token:
            await asyncio.sleep(LOOK_EVERY)
            if token[1] is None and mirrors.now() - began > ask:
                await self._in_thread(lambda: self._sync.refresh(began))
                return


def _prospects(state: BranchState, want: Want, now: float) -> tuple[bool, float | None]:
    """Return whether there is work now, and when the next delayed job is due."""
    return state.has_work(want, now), state.next_due()


def _counts(state: BranchState, run: str | None) -> list[Count]:
    counts = []
    for number, lane in state.lanes.by_number.items():
        if run is None or lane.run == run:
            # By the files, not by the lane's counters: a person may have removed a job's file.
            pending, claimed = state.jobs.unfinished(number)
            counts.append(
                Count(
                    run=lane.run,
                    kind=lane.kind,
                    partition=lane.partition,
                    pending=pending,
                    claimed=claimed,
                    # A file that a person edited may hold any number.
                    completed=max(0, lane.completed),
                    failed=max(0, lane.failed),
                    cancelled=max(0, lane.cancelled),
                )
            )
    return sorted(counts, key=lambda count: (count.run, count.kind, count.partition))
