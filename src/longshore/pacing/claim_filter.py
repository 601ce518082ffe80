"""Which hosts a worker claims no jobs of: hosts that are closed, and hosts of which it already holds enough jobs.

A job of a host that takes one request a second would only wait in the worker and occupy an executor. So a worker holds
of each host only what it can start within moments, and leaves the rest to the other workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Protocol

HOST_LOOK_SECONDS = 1.0
"""How often a worker that waits for a host to open looks again."""


class HostCapacity(Protocol):
    """The source of the capacity of hosts. Both methods are called before every claim."""

    def closed_hosts(self) -> frozenset[str]:
        """Return the hosts that take no requests for now."""

    def capacity(self, host: str) -> int | None:
        """Return how many jobs of a host it makes sense to hold; None if nothing is known of the host."""


class ClaimFilter:
    """Excludes hosts from claims. `held_hosts` returns the host of each job that the worker holds."""

    def __init__(self, hosts: HostCapacity | None, held_hosts: Callable[[], Iterable[str]]) -> None:
        self._hosts = hosts
        self._held_hosts = held_hosts

    def excluded_hosts(self) -> frozenset[str]:
        """Return the hosts to claim nothing of now."""
        hosts = self._hosts
        if hosts is None:
            return frozenset()
        held = Counter(self._held_hosts())
        full = [host for host, number in held.items() if host and self._is_full(hosts.capacity(host), number)]
        return hosts.closed_hosts().union(full)

    @staticmethod
    def _is_full(capacity: int | None, held: int) -> bool:
        return capacity is not None and held >= capacity
