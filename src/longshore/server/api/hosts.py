"""Hosts and proxies: how fast each host is asked, which are closed, and which proxies rest."""

from __future__ import annotations

import asyncio
from contextlib import closing

import msgspec
from litestar import Controller, get

from longshore.errors import NotFoundError
from longshore.pacing.choose_store import rate_store_for
from longshore.pacing.host_rate import HostRate
from longshore.scrape.proxies.health_table import ProxyRow, rows
from longshore.scrape.proxies.status_file import read_status_files
from longshore.server.api.request import ApiCall, ServedQueue
from longshore.server.auth.access import Access
from longshore.server.auth.guard import SCOPE
from longshore.server.auth.keys import Scope

_READ = {SCOPE: (Scope.READ, Scope.WORK)}


class HostBody(msgspec.Struct, frozen=True, kw_only=True):
    """How fast one host is asked. Instants are seconds since 1970, by the clock of the queue."""

    host: str
    identity: str | None
    """The proxy or address that requests come from, if each has a rate of its own."""
    rate: float
    """Requests a second."""
    ceiling: float | None
    """The rate that the host seems to allow; null if it is not known."""
    crawl_delay: float | None
    answers: int
    refusals: int
    last_refusal: float | None
    last_status: int | None
    """The status of the last refusal; null if there was none, or if it was a block page."""
    closed_until: float | None
    """Set while the host is closed."""
    why: str | None

    @classmethod
    def of(cls, name: str, rate: HostRate, now: float) -> HostBody:
        """Return a host from the name and the rate that workers share."""
        host, _, identity = name.partition(" via ")
        closed = rate.closed_until > now
        return cls(
            host=host,
            identity=identity or None,
            rate=rate.rate,
            ceiling=rate.ceiling or None,
            crawl_delay=rate.crawl_delay or None,
            answers=rate.answers,
            refusals=rate.refusals,
            last_refusal=rate.last_refusal or None,
            last_status=rate.last_status if rate.last_status > 0 else None,
            closed_until=rate.closed_until if closed else None,
            why=rate.why if closed else None,
        )


class HostsAnswer(msgspec.Struct, frozen=True):
    hosts: list[HostBody]


class ProxiesAnswer(msgspec.Struct, frozen=True):
    proxies: list[ProxyRow]


class HostRoutes(Controller):
    """The routes about the machines that are asked. They belong to no run: keys for some runs do not see them."""

    tags = ("hosts",)

    @get("/hosts", opt=_READ)
    async def hosts(self, request: ApiCall, served: ServedQueue) -> HostsAnswer:
        """Return the hosts that workers asked lately."""
        _check_whole(request.user)
        with closing(rate_store_for(served.queue, served.clock)) as store:
            now, known = await store.all()
        return HostsAnswer([HostBody.of(name, known[name], now) for name in sorted(known)])

    @get("/proxies", opt=_READ)
    async def proxies(self, request: ApiCall, served: ServedQueue) -> ProxiesAnswer:
        """Return the health of each proxy per host, as the workers on the machine of the server report it."""
        _check_whole(request.user)
        files = await asyncio.to_thread(read_status_files, served.traces.data_folder / "proxies")
        return ProxiesAnswer(rows([each.counters for each in files], served.clock.now()))


def _check_whole(access: Access) -> None:
    if access.is_limited:
        raise NotFoundError("This key is for some runs or kinds only, and hosts belong to none of them.")
