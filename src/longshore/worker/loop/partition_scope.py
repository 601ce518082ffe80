"""Where a worker looks for work: which partitions each of its claims asks for, and in which order.

A worker that has no scope of its own looks everywhere it was told to (`Everywhere`). A fleet gives its workers one that
shares the partitions out among them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Protocol

from longshore.clock import Clock
from longshore.lease import Lease, Want
from longshore.queue import Queue

Partitions = frozenset[str] | None
"""Which partitions; None is all there are."""
Take = Callable[[Partitions], Awaitable[list[Lease]]]
"""Claim from these partitions. Never called with none at all."""


class PartitionScope(Protocol):
    """Decides, claim by claim, which partitions a worker takes jobs from. All of it happens in one event loop."""

    @property
    def reach(self) -> Partitions:
        """Where work for this worker may appear: what it waits for when there is none."""

    async def claim(self, take: Take) -> list[Lease]:
        """Try the partitions in order of preference until `take` brings something.

        Whatever `take` or the queue raises comes through, and the next call begins anew.
        """

    async def changed(self) -> None:
        """Return when `reach` has changed since this was last awaited."""

    async def keep(self) -> None:
        """Do what has to be done now and then, until cancelled."""

    def retire(self) -> None:
        """The worker claims nothing any more; what it holds it still works on."""

    async def close(self) -> None:
        """The worker is done. Raises what the queue raises."""


class Scoping(Protocol):
    """What a worker is told before it starts, and makes its scope of when it does."""

    def join(self, want: Want, queue: Queue, clock: Clock, busy: Callable[[], frozenset[str]]) -> PartitionScope:
        """The scope of the worker that wants this. `busy` says which partitions it holds jobs of."""


class Everywhere:
    """The scope of a worker on its own: the partitions it was told to look in, all at once."""

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
