"""The executors of a worker: as many as its concurrency, also when that changes.

No attempt is broken off. A surplus executor takes no more jobs, and ends when its last attempt has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.executor import Executor


class ExecutorPool:
    """All executors of one worker, the retired ones included until they end."""

    def __init__(
        self,
        leases: HeldLeases,
        make: Callable[[], Executor],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._leases = leases
        self._make = make
        self._start = start
        self._tasks: dict[Executor, asyncio.Task[None]] = {}
        # The renewal thread reads this list too; each single change leaves it consistent.
        self.executors: list[Executor] = []

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """The tasks that they run in."""
        return list(self._tasks.values())

    def resize(self, size: int) -> None:
        """Have `size` executors from now on."""
        active = [executor for executor in self.executors if not executor.retired]
        for executor in self._retired()[: max(0, size - len(active))]:
            executor.retired = False
            active.append(executor)
        for _ in range(size - len(active)):
            self._add()
        # Those without a job first: they end at once.
        for executor in sorted(active, key=lambda one: one.lease is not None)[: max(0, len(active) - size)]:
            executor.retired = True
        self._leases.recall()

    def _retired(self) -> list[Executor]:
        """Return the retired executors that have not ended, and so can be used again."""
        return [executor for executor in self.executors if executor.retired and not self._tasks[executor].done()]

    def _add(self) -> None:
        executor = self._make()
        self.executors.append(executor)
        self._tasks[executor] = task = self._start(executor.run())
        task.add_done_callback(lambda _: self._remove(executor))

    def _remove(self, executor: Executor) -> None:
        self.executors.remove(executor)
        del self._tasks[executor]
