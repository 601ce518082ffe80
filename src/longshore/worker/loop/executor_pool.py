"""The runners of a worker: as many as its tempo says, also when that changes.

Nobody is sent away from a job. A runner too many takes no more jobs and ends when its last one has.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from longshore.worker.leases.held_leases import HeldLeases
from longshore.worker.loop.executor import Executor


class ExecutorPool:
    """Everyone who may hold a job, the retired ones included until they end."""

    def __init__(
        self,
        hand: HeldLeases,
        make: Callable[[], Executor],
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._hand = hand
        self._make = make
        self._start = start
        self._tasks: dict[Executor, asyncio.Task[None]] = {}
        # The renewal thread reads this list too, and each single change leaves it true.
        self.runners: list[Executor] = []

    @property
    def tasks(self) -> list[asyncio.Task[None]]:
        """What they do, one task for each."""
        return list(self._tasks.values())

    def resize(self, size: int) -> None:
        """Be so many from now on."""
        at_work = [runner for runner in self.runners if not runner.retired]
        for runner in self._retired()[: max(0, size - len(at_work))]:
            runner.retired = False
            at_work.append(runner)
        for _ in range(size - len(at_work)):
            self._hire()
        # Those without a job first: they can leave at once.
        for runner in sorted(at_work, key=lambda one: one.lease is not None)[: max(0, len(at_work) - size)]:
            runner.retired = True
        self._hand.recall()

    def _retired(self) -> list[Executor]:
        """Those who would have left, and can still be asked to stay."""
        return [runner for runner in self.runners if runner.retired and not self._tasks[runner].done()]

    def _hire(self) -> None:
        runner = self._make()
        self.runners.append(runner)
        self._tasks[runner] = task = self._start(runner.run())
        task.add_done_callback(lambda _: self._dismiss(runner))

    def _dismiss(self, runner: Executor) -> None:
        self.runners.remove(runner)
        del self._tasks[runner]
