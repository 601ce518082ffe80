"""A worker's place in its fleet: what the supervisor tells it on its command line, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import msgspec

from longshore.clock import Clock
from longshore.errors import QueueUnavailableError
from longshore.extensions.presence import WorkerRegistry
from longshore.fleet.partitions.assignment import assign
from longshore.fleet.partitions.assignment_table import read_table
from longshore.fleet.partitions.membership import Partitioning, PartitionMode
from longshore.fleet.supervise.allowed_partitions import read_limits
from longshore.lease import Want, WorkerId
from longshore.queue import Queue
from longshore.worker.loop.partition_scope import Everywhere, PartitionScope, Scoping

_AGAIN_SECONDS = 5.0


class WorkerSlot(msgspec.Struct, frozen=True, kw_only=True):
    """Which worker of which fleet, and how it is to share partitions with the others."""

    fleet: str
    number: int
    size: int
    """How many workers the fleet starts with."""
    mode: PartitionMode | None = None
    """None where partitions are not shared out: there are none, or each worker was given its own for good."""
    table: str | None = None
    """The file of a fixed table."""
    limits: str | None = None
    """The file of the only partitions it may touch; None is all."""

    def encoded(self) -> str:
        """As one argument."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> WorkerSlot:
        """What `encoded` gave."""
        return msgspec.json.decode(text, type=cls)

    def limited_to(self) -> frozenset[str] | None:
        """The only partitions it may touch; None is all."""
        return None if self.limits is None else read_limits(Path(self.limits))

    def scoping(self, known: Iterable[str], about: Mapping[str, Any] | None = None) -> Scoping:
        """How the worker finds its work, and is seen by the others, with what else it says `about` itself.

        `known` are the partitions its handlers name.
        """
        about = {**(about or {}), "fleet": {"name": self.fleet, "number": self.number}}
        if self.mode is None:
            return Attendance(about)
        table = None if self.table is None else read_table(Path(self.table))
        return Partitioning(
            mode=self.mode,
            number=self.number,
            fleet_size=self.size,
            assigns=assign if table is None else table.assign,
            known=frozenset(known if table is None else table.partitions),
            about=about,
        )


@dataclass(frozen=True)
class Attendance:
    """Being on the roll, where the queue keeps one, and nothing else."""

    about: Mapping[str, Any]

    def join(self, want: Want, queue: Queue, clock: Clock, busy: Callable[[], frozenset[str]]) -> PartitionScope:
        """The scope of a worker that looks everywhere it was told to."""
        del busy
        if not queue.traits.keeps_roll:
            return Everywhere(want.partitions)
        return _Attending(want, cast(WorkerRegistry, queue), clock, {**self.about, "run": want.run})


class _Attending(Everywhere):
    def __init__(self, want: Want, queue: WorkerRegistry, clock: Clock, about: Mapping[str, Any]) -> None:
        super().__init__(want.partitions)
        self._worker: WorkerId = want.worker
        self._lease = want.lease
        self._queue = queue
        self._clock = clock
        self._about = about

    async def keep(self) -> None:
        while True:
            try:
                await self._queue.sign_in(self._worker, self._lease, self._about)
            except QueueUnavailableError:
                await self._clock.sleep(_AGAIN_SECONDS)  # whoever claims says so aloud
            else:
                return  # renewing its leases keeps a worker on the roll

    async def close(self) -> None:
        await self._queue.sign_out(self._worker)
