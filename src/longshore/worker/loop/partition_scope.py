"""The partitions that a worker claims jobs from, and in which order.

A worker on its own claims from all partitions of its configuration at once (`Everywhere`). A fleet gives its workers a
scope that divides the partitions among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from longshore.clock import Clock
from longshore.lease import Lease, Want
from longshore.queue import Queue

Partitions = frozenset[str] | None
"""Some partitions; None means all."""
Take = Callable[[Partitions], Awaitable[list[Lease]]]
"""Claims from these partitions. Never called with an empty set."""


class PartitionScope(Protocol):
    """Decides for each claim which partitions a worker takes jobs from. Used in one event loop only."""

    @property
    def reach(self) -> Partitions:
        """The partitions in which jobs for this worker may appear; it waits for these when there is no work."""

    async def claim(self, take: Take) -> list[Lease]:
        """Try the partitions in order of preference until `take` returns leases.

        Raises what `take` or the queue raises; the next call then starts again from the first.
        """

    async def changed(self) -> None:
        """Return when `reach` has changed since this was last awaited."""

    async def keep(self) -> None:
        """Do the periodic work of the scope, until cancelled."""

    def retire(self) -> None:
        """Note that the worker claims nothing more. It still finishes the jobs it holds."""

    async def close(self) -> None:
        """Leave the scope, at the end of the worker. Raises what the queue raises."""


class Scoping(Protocol):
    """Makes the scope of a worker when it starts."""

    def join(self, want: Want, queue: Queue, clock: Clock, busy: Callable[[], frozenset[str]]) -> PartitionScope:
        """Return the scope of the worker with this `want`. `busy` returns the partitions of the jobs it holds."""


class Everywhere:
    """The scope of a worker on its own: all partitions of its configuration, at once."""

    def __init__(self, partitions: Partitions) -> None:
        self.reach = partitions

    async def claim(self, take: Take) -> list[Lease]:
        return await take(self.reach)

    async def changed(self) -> None:
        await asyncio.Event().wait()

    async def keep(self) -> None:
        return None

    def retire(self) -> None:
        return None

    async def close(self) -> None:
        return None
