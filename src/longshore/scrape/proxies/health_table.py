"""How the proxies stand at each host, put together from what several workers know: who rests, until when, and why."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from longshore.scrape.proxies.counters import HostCounters, ProxyCounters

_WORST_FIRST = ("resting", "probation", "serving")


class ProxyRow(msgspec.Struct, frozen=True, kw_only=True):
    """A proxy at a host, for all workers."""

    proxy: str
    """With its password masked."""
    host: str
    """Empty for every host: it is the proxy's own trouble."""
    state: str
    """`resting`, `probation` or `serving`: the worst that it is for any of them."""
    requests: int
    failed: int
    failures: int
    """In a row, of the worker where those are most."""
    why: str
    since: float | None
    """When that worker last changed its mind, in seconds since 1970."""
    until: float | None
    """When the first of the rests ends, in seconds since 1970."""
    workers: int
    """How many have used it there."""
    resting: int
    """For how many of them it rests."""
    everywhere: bool = False
    """It rests here because it rests at every host."""


def rows(told: Iterable[Sequence[ProxyCounters]], now: float) -> list[ProxyRow]:
    """A row for each proxy at each host it was used at, by host; of one host, those that rest come first."""
    met: dict[tuple[str, str], list[HostCounters]] = {}
    for standings in told:
        for standing in standings:
            for place in standing.places:
                met.setdefault((place.host, standing.proxy), []).append(_as_of(place, now))
    made = [_row(proxy, host, places) for (host, proxy), places in met.items()]
    gone = {row.proxy: row for row in made if not row.host and row.resting == row.workers}
    made = [_gone(row, gone[row.proxy]) if row.host and row.proxy in gone else row for row in made]
    return sorted(made, key=lambda row: (row.host, _WORST_FIRST.index(row.state)))


def _gone(row: ProxyRow, everywhere: ProxyRow) -> ProxyRow:
    """A proxy at a host, when it rests at every host."""
    if row.state == "resting":
        return row
    rest = {name: getattr(everywhere, name) for name in ("state", "failures", "why", "since", "until")}
    return msgspec.structs.replace(row, **rest, resting=row.workers, everywhere=True)


def unused(told: Iterable[Sequence[ProxyCounters]]) -> list[str]:
    """The proxies that no worker has used yet."""
    used: dict[str, int] = {}
    for standings in told:
        for each in standings:
            used[each.proxy] = used.get(each.proxy, 0) + each.requests
    return [proxy for proxy, requests in used.items() if not requests]


def _row(proxy: str, host: str, places: Sequence[HostCounters]) -> ProxyRow:
    worst = min(places, key=lambda place: (_WORST_FIRST.index(place.state), -place.failures, -(place.since or 0)))
    rests = [place.until for place in places if place.state == "resting" and place.until is not None]
    return ProxyRow(
        proxy=proxy,
        host=host,
        state=worst.state,
        requests=sum(place.requests for place in places),
        failed=sum(place.failed for place in places),
        failures=worst.failures,
        why=worst.why,
        since=worst.since,
        until=min(rests, default=None),
        workers=len(places),
        resting=len(rests),
    )


def _as_of(place: HostCounters, now: float) -> HostCounters:
    """As it is by now: a rest may have ended since it was told."""
    over = place.until is not None and place.until <= now
    return msgspec.structs.replace(place, state="probation", until=None) if over else place
