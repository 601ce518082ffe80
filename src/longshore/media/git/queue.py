"""The contract on a branch of a git repository. Calls that arrive while a push is under way share the next one."""

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
from longshore.job import Attempt, Job, NewJob, number_of
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
    Operation,
    Prune,
    Reap,
    Renew,
    Retry,
    Settle,
    SignIn,
    SignOut,
    Submit,
    TakeOver,
    WriteNotes,
)
from longshore.media.git.state.selection import selected
from longshore.media.git.sync.branch_sync import BranchSync, Refused, Traffic
from longshore.media.git.sync.faults import unusable
from longshore.outcome import Settlement
from longshore.queue import Count, Reaped, Selection, Submitted, Traits, page_start
from longshore.stored import check_texts
from longshore.system.first_of import first_of

T = TypeVar("T")

LOOK_EVERY = 0.05
"""Seconds between two looks at whether anyone pushed from this machine, or to a repository on it, while waiting."""
ASK_FIRST, ASK_SLOWEST = 0.5, 8.0
"""Seconds before a waiting worker asks a remote elsewhere for the first time, and in the end."""


class GitQueue:
    """See `longshore.queue.Queue` for what each method promises, `archive`, `races` and `rejects` for those beside it,
    and `exchange` for how it is kept."""

    traits = Traits(
        name="git",
        spans_processes=True,
        spans_machines=True,
        wakes=True,
        takes_over=True,
        tracks_presence=True,
        shares_state=True,
        archives=True,
        counts_lost_claims=True,
        keeps_rejected=True,
    )

    def __init__(self, exchange: BranchSync, thread: ThreadPoolExecutor, clock: Clock) -> None:
        self._exchange = exchange
        self._thread = thread
        self._clock = clock
        self._due: list[tuple[Operation[Any], asyncio.Future[Any]]] = []
        self._rounds: asyncio.Task[None] | None = None
        self._closed = False

    @classmethod
    async def open(cls, url: str, clock: Clock, cache: Path) -> Self:
        """Open the queue in a repository, with a mirror of it under `cache`."""
        location = RepositoryLocation(url)
        # One thread: git is waited for, and the ledger is no place for two.
        thread = ThreadPoolExecutor(1, thread_name_prefix="longshore-git")

        def start() -> BranchSync:
            exchange = BranchSync(Mirror(location, cache), clock)
            try:
                exchange.open()
            except BaseException as error:
                exchange.mirror.close()
                if isinstance(error, OSError):
                    raise unusable(exchange.mirror.folder, error) from error
                raise
            return exchange

        try:
            exchange = await asyncio.get_running_loop().run_in_executor(thread, start)
        except BaseException:
            thread.shutdown(wait=False)
            raise
        return cls(exchange, thread, clock)

    @property
    def traffic(self) -> Traffic:
        """How many pushes, refusals and fetches this opening has needed."""
        return self._exchange.traffic

    async def claim_success_rate(self) -> float:
        meta = await self._look(lambda ledger: ledger.meta)
        return meta.claims / max(1, meta.claims + meta.lost_races) if meta.claims else 1.0

    async def rejected(self) -> RejectedFiles:
        return RejectedFiles(await self._look(lambda ledger: ledger.rejected), f"{REJECTED}/ of its branch")

    async def submit(self, jobs: Sequence[NewJob]) -> Submitted:
        return await self._do(Submit(jobs, self._clock.now())) if jobs else Submitted(0, 0)

    async def claim(self, want: Want) -> list[Lease]:
        return await self._do(Claim(want))

    async def renew(self, worker: WorkerId, lease: timedelta) -> list[Held]:
        return await self._do(Renew(worker, lease))

    async def register(self, worker: WorkerId, lease: timedelta, info: WorkerInfo) -> list[Held]:
        return await self._do(SignIn(worker, lease, info))

    async def deregister(self, worker: WorkerId) -> None:
        await self._do(SignOut(worker))

    async def present_workers(self) -> list[PresentWorker]:
        return await self._look(lambda ledger: ledger.heartbeats.present())

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        return await self._do(Settle(settlements)) if settlements else []

    async def reap(self) -> Reaped:
        # Mostly nobody is silent, and finding that out needs no push.
        if not await self._look(lambda ledger: ledger.silent()):
            return Reaped()
        return await self._do(Reap())

    async def stats(self, run: str | None = None) -> list[Count]:
        check_texts((run or "",), "The run")
        return await self._look(lambda ledger: _counts(ledger, run))

    async def jobs(self, selection: Selection, *, after: str = "", limit: int = 1000) -> list[Job]:
        now, start = self._clock.now(), page_start(after, limit)

        def page(ledger: BranchState) -> list[Job]:
            found = selected(ledger, selection, now, after=start)
            return [record.job(place, ledger.holder(place)) for place, record in islice(found, limit)]

        return await self._look(page)

    async def history(self, job_id: str) -> list[Attempt]:
        def history(ledger: BranchState) -> list[Attempt]:
            place = ledger.find(number_of(job_id))
            record = ledger.record(place) if place is not None else None
            return record.history if record is not None else []

        return await self._look(history)

    async def retry(self, selection: Selection) -> int:
        return await self._do(Retry(selection))

    async def cancel(self, selection: Selection) -> int:
        return await self._do(Cancel(selection))

    async def prune(self, selection: Selection) -> int:
        return await self._do(Prune(selection))

    async def take_over(self, carried: Sequence[Carried]) -> Submitted:
        return await self._do(TakeOver(carried)) if carried else Submitted(0, 0)

    async def read_entries(self, namespace: str, names: frozenset[str] | None = None) -> Entries:
        check_texts((namespace, *(names or ())), "The name of a shared entry")
        # The instant first: what is read may be younger, never older.
        now = self._clock.now()
        return Entries(now, await self._look(lambda ledger: ledger.notebook.lying(namespace, names)))

    async def swap_entries(self, namespace: str, entries: Sequence[StateEntry]) -> list[str | None]:
        check_texts((namespace,), "The name of a shared entry")
        return await self._do(WriteNotes(namespace, entries)) if entries else []

    async def archive(self, selection: Selection) -> int:
        return await self._do(Archive(selection))

    async def archived(self) -> list[Month]:
        return await self._look(lambda ledger: ledger.archived())

    async def forget_history(self) -> None:
        # The same files on a new branch; see `branches`.
        await self._in_thread(self._exchange.new_generation)

    async def wait(self, want: Want, timeout: timedelta) -> bool:
        until = self._clock.monotonic() + timeout.total_seconds()
        ask = ASK_FIRST
        while True:
            # Read before looking: what is pushed after it makes the signs differ, so no wake-up is ever missed.
            signs = self._exchange.signs()
            now = self._clock.now()
            found, due = await self._look(partial(_prospects, want=want, now=now))
            if found:
                return True
            left = until - self._clock.monotonic()
            if left <= 0:
                return False
            if due is not None and due <= now:
                continue
            ask = await self._sleep(left if due is None else min(left, due - now), signs, ask)

    async def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._rounds is not None:
            await self._rounds
        await asyncio.get_running_loop().run_in_executor(self._thread, self._exchange.mirror.close)
        self._thread.shutdown()

    async def _do(self, operation: Operation[T]) -> T:
        """The operation's answer, once it is part of the branch."""
        answer: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._due.append((operation, answer))
        if self._rounds is None:
            self._rounds = asyncio.create_task(self._go_round())
        return await answer

    async def _go_round(self) -> None:
        """Perform what is due, all of it at once, until nothing is."""
        try:
            while self._due:
                batch, self._due = self._due, []
                operations = [operation for operation, _ in batch]
                try:
                    answers = await self._in_thread(partial(self._exchange.perform, operations))
                except asyncio.CancelledError:
                    for _, waiting in batch:
                        waiting.cancel()
                    raise
                except Exception as error:  # noqa: BLE001 - handed to everyone who waits for it
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
            self._rounds = None

    async def _look(self, at: Callable[[BranchState], T]) -> T:
        return await self._in_thread(lambda: at(self._exchange.look()))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, call)
        except OSError as error:
            # The files that are read and written in there are those of the mirror.
            raise unusable(self._exchange.mirror.folder, error) from error

    async def _sleep(self, seconds: float, signs: tuple[str, str | None], ask: float) -> float:
        """Until someone may have pushed, or that many seconds of the clock. Returns when to ask the remote then."""
        await first_of(self._change(signs, ask), self._clock.sleep(seconds))
        return ASK_FIRST if self._exchange.signs() != signs else min(ask * 1.5, ASK_SLOWEST)

    async def _change(self, signs: tuple[str, str | None], ask: float) -> None:
        # In real time, whatever the injected clock says: others push when they will.
        began = mirrors.now()
        while self._exchange.signs() == signs:
            await asyncio.sleep(LOOK_EVERY)
            if signs[1] is None and mirrors.now() - began > ask:
                await self._in_thread(lambda: self._exchange.refresh(began))
                return


def _prospects(ledger: BranchState, want: Want, now: float) -> tuple[bool, float | None]:
    """Whether there is work now, and when there may be."""
    return ledger.has_work(want, now), ledger.next_due()


def _counts(ledger: BranchState, run: str | None) -> list[Count]:
    lanes = sorted((lane.run, lane.kind, lane.partition, lane) for lane in ledger.lanes.values())
    return [
        Count(
            run=lane.run,
            kind=lane.kind,
            partition=lane.partition,
            pending=lane.pending,
            claimed=lane.claimed,
            completed=lane.completed,
            failed=lane.failed,
            cancelled=lane.cancelled,
        )
        for *_, lane in lanes
        if run is None or lane.run == run
    ]
