"""Connections of the aiohttp transport: how many idle ones are kept, and what a connection that breaks means.

aiohttp keeps every idle connection for 15 seconds, without a limit on their number. A crawl that visits 500 new hosts
per second would keep 7,500 open, and many systems allow a process 1,024 open files.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import aiohttp
from aiohttp.abc import ResolveResult
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey

from longshore.scrape.http.address_policy import AddressPolicy
from longshore.system.descriptors import open_limit

MOST_KEPT = 5_000
"""Hosts. An idle connection takes about 7 KB."""
_WITHOUT_LIMIT = 500
"""Hosts, if the system reports no limit for open files."""


class FewKept(aiohttp.TCPConnector):
    """A connector that closes the idle connections of the least recently used hosts beyond `most` hosts."""

    def __init__(self, most: int, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._most_kept = most
        report_broken_bodies(self)

    # aiohttp has no setting for this. `_conns` holds the idle connections by host, least recently added host first.
    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        while len(self._conns) > self._most_kept:
            for idle, _ in self._conns.pop(next(iter(self._conns))):
                idle.close()


class JudgedConnector(FewKept):
    """A connector that connects only to addresses that the policy permits.

    Connections are used again, so requests to hosts of their own job need another connector than all others.
    """

    def __init__(self, most: int, policy: AddressPolicy, *, own: bool, **options: object) -> None:
        super().__init__(most, **options)
        self._policy = policy
        self._own = own

    # aiohttp calls this for names and for addresses, before each new connection, and connects to what it returns.
    async def _resolve_host(
        self, host: str, port: int, traces: Sequence[aiohttp.tracing.Trace] | None = None
    ) -> list[ResolveResult]:
        found = await super()._resolve_host(host, port, traces)
        shown = host if port in (80, 443) else f"{host}:{port}"
        permitted = set(self._policy.permitted(shown, [each["host"] for each in found], own=self._own))
        return [each for each in found if each["host"] in permitted]


class _Protocol(ResponseHandler):
    """aiohttp's protocol, except that a body is not complete if its connection broke.

    If neither a length nor chunks say where a body ends, it ends with the connection. aiohttp then takes a connection
    that was reset for one that was closed.
    """

    def connection_lost(self, exc: BaseException | None) -> None:
        body = self._payload
        if exc is not None and body is not None and not body.is_eof():
            body.set_exception(aiohttp.ClientPayloadError(f"The connection broke within the body: {exc}"), exc)
        super().connection_lost(exc)


def report_broken_bodies(connector: aiohttp.BaseConnector) -> None:
    """Make the connections of a connector raise an error if they break within a body."""
    # aiohttp has no setting for this.
    make: Callable[..., ResponseHandler] = _Protocol
    connector._factory = functools.partial(make, loop=connector._loop)


def most_kept() -> int:
    """Return for how many hosts idle connections are kept: they may use half of the open files allowed."""
    limit = open_limit()
    return _WITHOUT_LIMIT if limit is None else min(MOST_KEPT, limit // 2)
