"""The health table: the state of each proxy at each host, merged from the counters of several workers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from longshore.scrape.proxies.counters import HostCounters, ProxyCounters

_WORST_FIRST = ("resting", "probation", "failing", "serving")


class ProxyRow(msgspec.Struct, frozen=True, kw_only=True):
    """The state of a proxy at a host, over all workers."""

    proxy: str
    """With its password masked."""
    host: str
    """Empty for every host: the proxy itself fails."""
    state: str
    """`resting`, `probation` or `serving`: the worst state at any worker. `failing` if it has only failed yet."""
    requests: int
    failed: int
    failures: int
    """Failures in a row at the worker with the worst state."""
    why: str
    since: float | None
    """When the state last changed at that worker, in seconds since 1970."""
    until: float | None
    """When the first of the rests ends, in seconds since 1970."""
    workers: int
    """The number of workers that have used it there."""
    resting: int
    """The number of workers at which it rests."""
    everywhere: bool = False
    """Whether it rests here because it rests at every host."""


def rows(workers: Iterable[Sequence[ProxyCounters]], now: float) -> list[ProxyRow]:
    """Return a row for each proxy at each host it was used at, sorted by host, resting proxies first."""
    grouped: dict[tuple[str, str], list[HostCounters]] = {}
    for counters in workers:
        for proxy in counters:
            for place in proxy.places:
                grouped.setdefault((place.host, proxy.proxy), []).append(_as_of(place, now))
    made = [_row(proxy, host, places) for (host, proxy), places in grouped.items()]
    resting = {row.proxy: row for row in made if not row.host and row.resting == row.workers}
    made = [_resting_everywhere(row, resting[row.proxy]) if row.host and row.proxy in resting else row for row in made]
    return sorted(made, key=lambda row: (row.host, _WORST_FIRST.index(row.state)))


def _resting_everywhere(row: ProxyRow, everywhere: ProxyRow) -> ProxyRow:
    """Return the row of a proxy at a host, given that the proxy rests at every host."""
    if row.state == "resting":
        return row
    rest = {name: getattr(everywhere, name) for name in ("state", "failures", "why", "since", "until")}
    return msgspec.structs.replace(row, **rest, resting=row.workers, everywhere=True)


def unused(workers: Iterable[Sequence[ProxyCounters]]) -> list[str]:
    """Return the proxies that no worker has used yet."""
    used: dict[str, int] = {}
    for counters in workers:
        for each in counters:
            used[each.proxy] = used.get(each.proxy, 0) + each.requests
    return [proxy for proxy, requests in used.items() if not requests]


def _row(proxy: str, host: str, places: Sequence[HostCounters]) -> ProxyRow:
    worst = min(places, key=lambda place: (_WORST_FIRST.index(place.state), -place.failures, -(place.since or 0)))
    rests = [place.until for place in places if place.state == "resting" and place.until is not None]
    requests, failed = sum(place.requests for place in places), sum(place.failed for place in places)
    # No worker has seen enough failures to let it rest, but it serves none of them.
    only_failed = worst.state == "serving" and 0 < requests == failed
    return ProxyRow(
        proxy=proxy,
        host=host,
        state="failing" if only_failed else worst.state,
        requests=requests,
        failed=failed,
        failures=worst.failures,
        why=worst.why,
        since=worst.since,
        until=min(rests, default=None),
        workers=len(places),
        resting=len(rests),
    )


def _as_of(place: HostCounters, now: float) -> HostCounters:
    """Return the counters as of `now`: a rest may have ended since they were written."""
    over = place.until is not None and place.until <= now
    return msgspec.structs.replace(place, state="probation", until=None) if over else place
