"""What a worker holds: leases that wait for a runner, and leases under way.

Changed only in the event loop; read by the renewal thread too, for which each single step leaves it true.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Sequence

from longshore.lease import Lease


class Hand:
    """The worker's leases until their outcome is known."""

    def __init__(self) -> None:
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
        self._closed = False

    @property
    def under_way(self) -> int:
        return len(self.held) - len(self.ready)

    def take_in(self, leases: Sequence[Lease]) -> None:
        """Add what was claimed, and wake as many runners as there is work for."""
        for lease in leases:
            self.held[lease.job.id] = lease
        self.ready.extend(leases)
        for _ in range(min(len(self.ready), len(self._waiting))):
            _wake(self._waiting.popleft())

    async def next(self) -> Lease | None:
        """The next lease to work on; None when there will be no more."""
        while not self.ready:
            if self._closed:
                return None
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            self.need.set()
            await turn
        if len(self.ready) <= self.low:
            self.need.set()
        return self.ready.popleft()

    def let_go(self, lease: Lease) -> None:
        """Its outcome is known, or it is lost: no longer ours to work on."""
        del self.held[lease.job.id]

    def close(self) -> list[Lease]:
        """No runner gets anything from now on. Returns what was ready; it is no longer held here."""
        self._closed = True
        given_back = list(self.ready)
        self.ready.clear()
        for lease in given_back:
            self.let_go(lease)
        while self._waiting:
            _wake(self._waiting.popleft())
        return given_back


def _wake(turn: asyncio.Future[None]) -> None:
    if not turn.done():
        turn.set_result(None)
