"""Which hosts a worker asks for no jobs of: those that are closed, and those of which it holds enough.

A job of a host that may be asked once a second would only wait in the hand, and keep a runner from other work. So a
worker holds of each host what it can begin within moments; the rest is anybody's.
"""

from __future__ import annotations

from collections import Counter
from typing import Protocol

from longshore.worker.leases.held_leases import HeldLeases

LOOK_SECONDS = 1.0
"""How often a worker that waits for a host to open looks again."""


class HostCapacity(Protocol):
    """Who knows how much a host takes. Both are asked before every claim."""

    def closed(self) -> frozenset[str]:
        """The hosts that take no requests for now."""

    def room(self, host: str) -> int | None:
        """How many jobs of a host it makes sense to hold; None where nothing is known that speaks against any."""


class ClaimFilter:
    """What the claimer asks before it claims."""

    def __init__(self, rooms: HostCapacity | None, hand: HeldLeases) -> None:
        self._rooms = rooms
        self._hand = hand

    def without(self) -> frozenset[str]:
        """The hosts to claim nothing of now."""
        rooms = self._rooms
        if rooms is None:
            return frozenset()
        held = Counter(lease.job.host for lease in self._hand.held.values())
        full = [host for host, number in held.items() if host and self._is_enough(rooms.room(host), number)]
        return rooms.closed().union(full)

    @staticmethod
    def _is_enough(room: int | None, held: int) -> bool:
        return room is not None and held >= room
