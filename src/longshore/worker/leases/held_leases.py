"""What a worker holds: leases that wait for a runner, and leases under way.

Changed only in the event loop; read by the renewal thread too, for which each single step leaves it true.

A worker that was stopped or asleep for longer than its lease may hold nothing any more, and somebody else may be at
work on it. Until the queue has said what is still its own, nothing that lay ready is begun.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence
from datetime import timedelta

from longshore.clock import Clock
from longshore.lease import Lease


class HeldLeases:
    """The worker's leases until their outcome is known."""

    def __init__(self, clock: Clock, lease: timedelta) -> None:
        self.now = clock.monotonic
        self._lease = lease.total_seconds()
        self.sure_until = float("-inf")
        """Until then, what is held is ours for certain."""
        self.ready: deque[Lease] = deque()
        """Claimed, not begun."""
        self.held: dict[str, Lease] = {}
        """By job id: ready and under way."""
        self.claiming = False
        """A claim is on its way, so the queue may hold leases for us that we have not heard of."""
        self.need = asyncio.Event()
        """Set when there may be room for more."""
        self.low = 0
        """So few ready ones, and it is time to claim more."""
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._recalls = 0
        self.closed = False
        """There will be no more."""

    @property
    def under_way(self) -> int:
        return len(self.held) - len(self.ready)

    @property
    def unsure(self) -> bool:
        """Whether the leases may have lapsed, for all that is known here."""
        return self.now() > self.sure_until

    def take_in(self, leases: Sequence[Lease], asked_at: float) -> None:
        """Add what was claimed, and wake as many runners as there is work for."""
        # A claim says nothing of what had lapsed before it.
        if not self.ready or not self.unsure:
            self._sure(asked_at)
        for lease in leases:
            self.held[lease.job.id] = lease
        self.ready.extend(leases)
        self._wake_for_ready()

    def renewed(self, asked_at: float) -> None:
        """The queue has said what is ours, to a question of that moment; what is not has been taken out."""
        self._sure(asked_at)
        self._wake_for_ready()

    @property
    def waiting(self) -> int:
        """How many runners wait for a job."""
        return len(self._waiting)

    async def next(self) -> Lease | None:
        """The next lease to work on; None when there will be no more, or when all who wait are recalled."""
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
        """What was ready and is not to be begun here after all. It stays held until its release is being written."""
        ready = list(self.ready)
        self.ready.clear()
        return ready

    def let_go(self, lease: Lease) -> None:
        """Its outcome is known, or it is lost: no longer ours to work on."""
        del self.held[lease.job.id]

    def close(self) -> list[Lease]:
        """No runner gets anything from now on. Returns what was ready; it is no longer held here."""
        self.closed = True
        given_back = list(self.ready)
        self.ready.clear()
        for lease in given_back:
            self.let_go(lease)
        self.recall()
        return given_back

    def recall(self) -> None:
        """Send everyone who waits for a job back to see what has changed."""
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
