"""Which hosts a worker claims no jobs of: hosts that are closed, and hosts of which it already holds enough jobs.

A job of a host that takes one request a second would only wait in the worker and occupy an executor. So a worker holds
of each host only what it can start within moments, and leaves the rest to the other workers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

HOST_LOOK_SECONDS = 1.0
"""How often a worker that waits for a host to open looks again."""


class HostCapacity(Protocol):
    """The source of the capacity of hosts. Both methods are called before every claim."""

    def closed_hosts(self) -> frozenset[str]:
        """Return the hosts that take no requests for now."""

    def capacity(self, host: str) -> int | None:
        """Return how many jobs of a host it makes sense to hold; None if nothing is known of the host."""


def excluded_hosts(hosts: HostCapacity, held: Iterable[str]) -> frozenset[str]:
    """Return the hosts to claim nothing of now. `held` has the host of each job that the worker holds."""
    capacities = ((host, number, hosts.capacity(host)) for host, number in Counter(held).items() if host)
    full = [host for host, number, capacity in capacities if capacity is not None and number >= capacity]
    return hosts.closed_hosts().union(full)
