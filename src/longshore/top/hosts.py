"""The hosts of pending jobs: the number of jobs, the request rate, and which hosts are in cooldown."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from longshore.job import Job
from longshore.pacing.host_rate import HostRate
from longshore.top.failures import FailureTally

SHOWN = 200
_COUNTED = 5000
"""The most hosts that are counted by name."""


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """One host, summed over all identities that requests to it use."""

    host: str
    waiting: int
    """Pending jobs; an estimate if not all were read."""
    rate: float | None = None
    """The current rate in requests per second; None if it was never requested or the rate is unknown."""
    limit: float | None = None
    """The rate that the host allows, in requests per second, as far as it was measured; None while it is unknown."""
    answers: int = 0
    refusals: int = 0
    last_status: int = 0
    """The status of the last refusal."""
    closed_for: float = 0.0
    """Seconds until the end of its cooldown; 0 if it has none."""
    why: str = ""
    """The reason of the cooldown."""
    crawl_delay: float = 0.0


class PendingTally:
    """Counts of pending jobs: by host, and by their last failure."""

    def __init__(self) -> None:
        self.read = 0
        self.hosts: Counter[str] = Counter()
        self.retrying = FailureTally()

    def add(self, job: Job) -> None:
        """Count a pending job."""
        self.read += 1
        if job.host and (job.host in self.hosts or len(self.hosts) < _COUNTED):
            self.hosts[job.host] += 1
        if job.failure is not None:
            self.retrying.add(job)


def host_rows(
    waiting: PendingTally, pending: int, in_flight: Counter[str], known: Mapping[str, HostRate], now: float
) -> tuple[HostRow, ...]:
    """Return the hosts of the jobs that were read, those with the most jobs first.

    The keys of `known` are `HOST`, or `HOST via IDENTITY` if requests to it use several identities; `now` is by the
    clock of the rate store.
    """
    by_host: dict[str, list[HostRate]] = {}
    for name, rate in known.items():
        by_host.setdefault(name.partition(" via ")[0], []).append(rate)
    scale = pending / waiting.read if waiting.read else 0.0
    hosts = waiting.hosts + in_flight
    rows = [
        _row(host, round(waiting.hosts[host] * scale), by_host.get(host, []), now)
        for host, _ in hosts.most_common(SHOWN)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.waiting, row.host)))


def _row(host: str, waiting: int, rates: list[HostRate], now: float) -> HostRow:
    if not rates:
        return HostRow(host=host, waiting=waiting)
    # A host is open if at least one identity may send requests.
    is_open = [rate for rate in rates if rate.closed_until <= now]
    first = min(rates, key=lambda rate: rate.closed_until)
    refused = max(rates, key=lambda rate: rate.last_refusal)
    return HostRow(
        host=host,
        waiting=waiting,
        rate=sum(_rate(rate) for rate in is_open or rates),
        limit=sum(rate.ceiling for rate in rates) if all(rate.ceiling for rate in rates) else None,
        answers=sum(rate.answers for rate in rates),
        refusals=sum(rate.refusals for rate in rates),
        last_status=refused.last_status,
        closed_for=0.0 if is_open else first.closed_until - now,
        why="" if is_open else first.why,
        crawl_delay=max(rate.crawl_delay for rate in rates),
    )


def _rate(host: HostRate) -> float:
    return min(host.rate, 1 / host.crawl_delay) if host.crawl_delay else host.rate
