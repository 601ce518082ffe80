"""Connections that are kept for the next request: of the hosts asked last, and of no more than so many.

aiohttp keeps each for a quarter of a minute, however many they are. A crawl that asks 500 new hosts a second would keep
7,500, and many systems allow a process 1,024 files.
"""

from __future__ import annotations

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey

MOST_KEPT = 500
"""Hosts."""


class FewKept(aiohttp.TCPConnector):
    """A connector that lets the connections to hosts go that were asked longest ago."""

    # There is no setting for it. `_conns` has what is kept by host, and the hosts in the order in which they came.
    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        while len(self._conns) > MOST_KEPT:
            for idle, _ in self._conns.pop(next(iter(self._conns))):
                idle.close()
