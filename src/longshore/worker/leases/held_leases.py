"""The leases that a worker holds: those that wait for an executor, and those under way.

Only the event loop changes them. The renewal thread reads them too; each single change leaves them consistent for it.

A worker that was stopped or asleep for longer than its lease may hold nothing any more, and another worker may be
working on the same jobs. Until the queue has confirmed which leases are still valid, no ready job is begun.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from longshore.clock import Clock
from longshore.lease import Lease


class HeldLeases:
    """The worker's leases until the outcome of each is known."""

    def __init__(self, clock: Clock, lease: timedelta) -> None:
        # The time that the machine slept counts: the queue, or a worker elsewhere, did not sleep.
        self.now = clock.boottime
        self._lease = lease.total_seconds()
        self.sure_until = float("-inf")
        """Until this moment (`now`) the leases are valid for certain."""
        self.ready: deque[Lease] = deque()
        """Claimed, not begun."""
        self.held: dict[str, Lease] = {}
        """By job id: ready and under way."""
        self.claiming = False
        """Whether a claim is on its way: the queue may have given us leases that we do not know of."""
        self.need = asyncio.Event()
        """Set when it may be time to claim more."""
        self.low = 0
        """With this many ready leases or fewer, it is time to claim more."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._recalls = 0
        self.closed = False
        """Whether there will be no more leases."""

    @property
    def under_way(self) -> int:
        """The number of attempts under way."""
        return len(self.held) - len(self.ready)

    @property
    def unsure(self) -> bool:
        """Whether the leases may have expired."""
        return self.now() > self.sure_until

    def take_in(self, leases: Sequence[Lease], asked_at: float) -> None:
        """Add claimed leases, and wake as many executors as there are jobs for."""
        # A claim does not tell whether older leases had expired before it.
        if not self.ready or not self.unsure:
            self._sure(asked_at)
        for lease in leases:
            self.held[lease.job.id] = lease
        self.ready.extend(leases)
        self._wake_for_ready()

    def renewed(self, asked_at: float) -> None:
        """Begin ready jobs again: a renewal sent at `asked_at` succeeded, and lost leases have been removed."""
        self._sure(asked_at)
        self._wake_for_ready()

    @property
    def waiting(self) -> int:
        """The number of executors that wait for a job."""
        return len(self._waiting)

    async def next(self) -> Lease | None:
        """Return the next lease to work on; None if there will be no more, or after `recall`."""
        recalls = self._recalls
        while not self.ready or self.unsure:
            if self.closed or self._recalls != recalls:
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            self.need.set()
            await turn
        if len(self.ready) <= self.low:
            self.need.set()
        return self.ready.popleft()

    def take_back(self) -> list[Lease]:
        """Remove and return the ready leases. They stay held until their release is handed to the settler."""
        ready = list(self.ready)
        self.ready.clear()
        return ready

    def let_go(self, lease: Lease) -> None:
        """Forget a lease whose outcome is known, or that is lost."""
        del self.held[lease.job.id]

    def close(self) -> list[Lease]:
        """Give no executor a lease from now on. Returns the ready leases, which are no longer held."""
        self.closed = True
        given_back = list(self.ready)
        self.ready.clear()
        for lease in given_back:
            self.let_go(lease)
        self.recall()
        return given_back

    def recall(self) -> None:
        """Let every waiting call of `next` return None, so that the executors see what has changed."""
        self._recalls += 1
        while self._waiting:
            _wake(self._waiting.popleft())

    def _sure(self, asked_at: float) -> None:
        self.sure_until = max(self.sure_until, asked_at + self._lease)

    def _wake_for_ready(self) -> None:
        for _ in range(min(len(self.ready), len(self._waiting))):
            _wake(self._waiting.popleft())


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
