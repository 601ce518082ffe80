"""Broken twins: one fault each, of the kind that a medium or a worker may really have. The checker must find them."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from longshore.job import State
from longshore.lease import Lease, Want, WorkerId
from longshore.outcome import Settlement
from longshore.queue import Queue, Selection
from longshore.wrappers.queue_wrapper import QueueWrapper

replace = msgspec.structs.replace


@dataclass(frozen=True)
class Twin:
    """A fault, and the medium whose trials must find it."""

    medium: str
    install: Callable[[], None] = lambda: None
    """Break the code of this process."""
    wrap: Callable[[Queue, Path], Queue] = lambda queue, folder: queue
    """Return a queue that is broken; the folder is for what its processes share."""


@cache
def install(name: str) -> None:
    """Break this process in the way that a twin is broken. An empty name breaks nothing."""
    if name:
        TWINS[name].install()


def wrapped(name: str, queue: Queue, folder: Path) -> Queue:
    """Return the queue, broken in the way that a twin is broken."""
    return TWINS[name].wrap(queue, folder) if name else queue


class _LooseFence(QueueWrapper):
    """A queue whose settlements get the epoch and holder that the medium wants to see."""

    def __init__(self, queue: Queue, folder: Path) -> None:
        super().__init__(queue)
        self._folder = folder / "holders"
        self._folder.mkdir(exist_ok=True)

    async def claim(self, want: Want) -> list[Lease]:
        leases = await self._queue.claim(want)
        for lease in leases:
            file = self._file(lease.job.id, lease.epoch)
            new = file.with_suffix(f".{os.getpid()}")
            new.write_bytes(msgspec.json.encode(lease.worker))
            new.replace(file)
        return leases

    async def settle(self, settlements: Sequence[Settlement]) -> list[bool]:
        ids = frozenset(each.lease.job.id for each in settlements)
        claimed = Selection(ids=ids, states=frozenset({State.CLAIMED}))
        epochs = {job.id: job.epoch for job in await self._queue.jobs(claimed, limit=len(ids))}
        return await self._queue.settle([self._forged(each, epochs) for each in settlements])

    def _forged(self, settlement: Settlement, epochs: Mapping[str, int]) -> Settlement:
        job = settlement.lease.job
        epoch = self._epoch(job.epoch, epochs.get(job.id, 0))
        file = self._file(job.id, epoch)
        if not file.exists():
            return settlement
        holder = msgspec.json.decode(file.read_bytes(), type=WorkerId)
        return replace(settlement, lease=replace(settlement.lease, job=replace(job, epoch=epoch), worker=holder))

    def _epoch(self, given: int, stored: int) -> int:
        raise NotImplementedError

    def _file(self, job_id: str, epoch: int) -> Path:
        return self._folder / f"{job_id}.{epoch}"


class NoEpochCheck(_LooseFence):
    """A settlement is accepted if the job is claimed, whichever claim it comes from."""

    def _epoch(self, given: int, stored: int) -> int:
        return stored


class NoHolderCheck(_LooseFence):
    """The right epoch is enough, no matter who brings it."""

    def _epoch(self, given: int, stored: int) -> int:
        return given


def _settle_before_records() -> None:
    from longshore.worker.loop.settlement_writer import SettlementWriter, Written

    async def settle(self: SettlementWriter, settlements: Sequence[Settlement]) -> Written:
        accepted = await self.queue.settle(settlements)
        await self._records.keep()
        return Written(list(settlements), accepted)

    SettlementWriter.settle = settle  # type: ignore[method-assign]


def _ignore_the_pause() -> None:
    """A worker of one run does not look at the pause; all other workers do."""
    from longshore.wrappers.paused import PausableQueue

    concerns = PausableQueue._concerns

    def careless(self: PausableQueue, want: Want) -> bool:
        return want.run is None and concerns(self, want)

    PausableQueue._concerns = careless  # type: ignore[method-assign]


def _count_then_claim() -> None:
    """Jobs are looked for in one transaction and claimed in the next."""
    from longshore.media.sqlite.host_turns import Search

    run = Search.run

    def looked_up(self: Search, db: sqlite3.Connection, limit: int) -> Any:
        found = run(self, db, limit)
        if found.jobs and db.in_transaction:
            db.execute("COMMIT")
            time.sleep(0.02)
            db.execute("BEGIN IMMEDIATE")
        return found

    Search.run = looked_up  # type: ignore[method-assign]


def _forget_uncommitted_changes() -> None:
    """The finished jobs are loaded from the tree of the last commit, without the changes since."""
    from longshore.media.git.state.branch_state import BranchState

    load = BranchState.load_finished

    def load_finished(self: BranchState) -> Any:
        staged = self._staged
        changes, staged.changes = staged.changes, {}
        try:
            return load(self)
        finally:
            staged.changes = changes

    BranchState.load_finished = load_finished  # type: ignore[method-assign]


def _believe_absence() -> None:
    """A name that a listing lacks is taken for gone, and nothing is looked at twice."""
    from longshore.media.directory.files import disk
    from longshore.media.directory.ops import reap

    disk.fresh_names = disk.names
    vars(reap)["reconcile_miscounted"] = lambda journal: None


TWINS: Mapping[str, Twin] = {
    "no epoch check": Twin("sqlite", wrap=NoEpochCheck),
    "no holder check": Twin("sqlite", wrap=NoHolderCheck),
    "settle before records": Twin("sqlite", _settle_before_records),
    "pause ignored by one face": Twin("sqlite", _ignore_the_pause),
    "count, then claim": Twin("sqlite", _count_then_claim),
    "late-loaded state without uncommitted changes": Twin("git", _forget_uncommitted_changes),
    "absence believed at first sight": Twin("directory", _believe_absence),
}
