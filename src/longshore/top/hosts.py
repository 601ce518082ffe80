"""The hosts that work waits for: how much of it, how fast each is asked, and which are closed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import msgspec

from longshore.job import Job
from longshore.pacing.host_rate import HostRate
from longshore.top.failures import FailureTally

SHOWN = 200
_COUNTED = 5000
"""Hosts counted by name; the jobs of further ones are counted without."""


class HostRow(msgspec.Struct, frozen=True, kw_only=True):
    """One host, over all the identities it is asked with."""

    host: str
    waiting: int
    """Pending jobs; a guess where they were not all read."""
    rate: float | None = None
    """Requests a second it is asked with now; None where it was never asked, or nobody says."""
    answers: int = 0
    refusals: int = 0
    last_status: int = 0
    """Of the last refusal."""
    closed_for: float = 0.0
    """Seconds until it may be asked again; 0 while it may."""
    why: str = ""
    """Why it is closed."""
    crawl_delay: float = 0.0


class PendingTally:
    """What the pending jobs are made of: their hosts, and what they failed of before."""

    def __init__(self) -> None:
        self.read = 0
        self.hosts: Counter[str] = Counter()
        self.retrying = FailureTally()

    def add(self, job: Job) -> None:
        """A pending job."""
        self.read += 1
        if job.host and (job.host in self.hosts or len(self.hosts) < _COUNTED):
            self.hosts[job.host] += 1
        if job.failure is not None:
            self.retrying.add(job)


def host_rows(
    waiting: PendingTally, pending: int, under_way: Counter[str], known: Mapping[str, HostRate], now: float
) -> tuple[HostRow, ...]:
    """The hosts of the jobs that were read, those with most work first.

    `known` is by host, or `HOST via IDENTITY` where a host is asked with several; `now` is by the clock they share.
    """
    standings: dict[str, list[HostRate]] = {}
    for name, standing in known.items():
        standings.setdefault(name.partition(" via ")[0], []).append(standing)
    each = pending / waiting.read if waiting.read else 0.0
    hosts = waiting.hosts + under_way
    rows = [
        _row(host, round(waiting.hosts[host] * each), standings.get(host, []), now)
        for host, _ in hosts.most_common(SHOWN)
    ]
    return tuple(sorted(rows, key=lambda row: (-row.waiting, row.host)))


def _row(host: str, waiting: int, standings: list[HostRate], now: float) -> HostRow:
    if not standings:
        return HostRow(host=host, waiting=waiting)
    asked = [standing for standing in standings if standing.closed_until <= now]
    # A host is open as long as somebody may ask it.
    first = min(standings, key=lambda standing: standing.closed_until)
    refused = max(standings, key=lambda standing: standing.last_refusal)
    return HostRow(
        host=host,
        waiting=waiting,
        rate=sum(_rate(standing) for standing in asked or standings),
        answers=sum(standing.answers for standing in standings),
        refusals=sum(standing.refusals for standing in standings),
        last_status=refused.last_status,
        closed_for=0.0 if asked else first.closed_until - now,
        why="" if asked else first.why,
        crawl_delay=max(standing.crawl_delay for standing in standings),
    )


def _rate(standing: HostRate) -> float:
    return min(standing.rate, 1 / standing.crawl_delay) if standing.crawl_delay else standing.rate
