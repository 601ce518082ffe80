"""A worker's slot in its fleet: the data that the supervisor passes on the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from longshore.clock import Clock
from longshore.errors import PassingQueueError
from longshore.extensions.find import find
from longshore.extensions.presence import FleetInfo, WorkerInfo, WorkerRegistry
from longshore.fleet.partitions.assignment import assign
from longshore.fleet.partitions.assignment_table import read_table
from longshore.fleet.partitions.membership import Partitioning, PartitionMode
from longshore.fleet.supervise.allowed_partitions import read_limits
from longshore.lease import Want, WorkerId
from longshore.queue import Queue
from longshore.worker.loop.partition_scope import Everywhere, PartitionScope, Scoping

_RETRY_SECONDS = 5.0


class WorkerSlot(msgspec.Struct, frozen=True, kw_only=True):
    """The worker's fleet and number, and how it shares partitions with the other workers."""

    fleet: str
    number: int
    size: int
    """The number of workers that the fleet starts with."""
    mode: PartitionMode | None = None
    """None if partitions are not assigned: there are none, or each worker keeps the ones it was given."""
    table: str | None = None
    """The file of a fixed table."""
    limits: str | None = None
    """The file of the only partitions that it may claim from; None means all."""

    def encoded(self) -> str:
        """Return the slot as one command-line argument."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def decoded(cls, text: str) -> WorkerSlot:
        """Return the slot that `encoded` made the text of."""
        return msgspec.json.decode(text, type=cls)

    def limited_to(self) -> frozenset[str] | None:
        """Return the only partitions that the worker may claim from; None means all."""
        return None if self.limits is None else read_limits(Path(self.limits))

    def scoping(self, known: Iterable[str], info: WorkerInfo | None = None) -> Scoping:
        """Return how the worker finds its work and is seen by the others. It publishes `info` with its fleet added.

        `known` are the partitions that its handlers name.
        """
        fleet = FleetInfo(name=self.fleet, number=self.number)
        info = msgspec.structs.replace(info or WorkerInfo(), fleet=fleet)
        if self.mode is None:
            return Attendance(info)
        table = None if self.table is None else read_table(Path(self.table))
        return Partitioning(
            mode=self.mode,
            number=self.number,
            fleet_size=self.size,
            assigns=assign if table is None else table.assign,
            known=frozenset(known if table is None else table.partitions),
            info=info,
        )


@dataclass(frozen=True)
class Attendance:
    """Registers the worker, if the queue has a worker registry, and limits nothing."""

    info: WorkerInfo

    def join(self, want: Want, queue: Queue, clock: Clock, busy: Callable[[], frozenset[str]]) -> PartitionScope:
        """Return the scope of a worker that claims from all partitions it may claim from."""
        del busy
        registry = find(queue, WorkerRegistry)
        if registry is None:
            return Everywhere(want.partitions)
        return _Attending(want, registry, clock, msgspec.structs.replace(self.info, run=want.run))


class _Attending(Everywhere):
    def __init__(self, want: Want, registry: WorkerRegistry, clock: Clock, info: WorkerInfo) -> None:
        super().__init__(want.partitions)
        self._worker: WorkerId = want.worker
        self._lease = want.lease
        self._registry = registry
        self._clock = clock
        self._info = info

    async def keep(self) -> None:
        while True:
            try:
                await self._registry.register(self._worker, self._lease, self._info)
            except PassingQueueError:
                await self._clock.sleep(_RETRY_SECONDS)  # the claimer reports it
            else:
                return  # from now on, the renewal of its leases keeps the worker registered

    async def close(self) -> None:
        await self._registry.deregister(self._worker)
