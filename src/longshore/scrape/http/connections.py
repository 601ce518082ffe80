"""Connections that are kept for the next request: of the hosts asked last, and of no more than there is room for.

aiohttp keeps each for a quarter of a minute, however many they are. A crawl that asks 500 new hosts a second would keep
7,500, and many systems allow a process 1,024 files.
"""

from __future__ import annotations

import aiohttp
from aiohttp.client_proto import ResponseHandler
from aiohttp.client_reqrep import ConnectionKey

from longshore.system.descriptors import open_limit

MOST_KEPT = 5_000
"""Hosts. A connection takes some 7 KB."""
_WITHOUT_LIMIT = 500
"""Where the system does not say how many files may be open."""


class FewKept(aiohttp.TCPConnector):
    """A connector that lets the connections to hosts go that were asked longest ago. Its options are keywords."""

    def __init__(self, most: int, **options: object) -> None:
        super().__init__(**options)  # type: ignore[arg-type]
        self._most_kept = most

    # There is no setting for it. `_conns` has what is kept by host, and the hosts in the order in which they came.
    def _release(self, key: ConnectionKey, protocol: ResponseHandler, *, should_close: bool = False) -> None:
        super()._release(key, protocol, should_close=should_close)
        while len(self._conns) > self._most_kept:
            for idle, _ in self._conns.pop(next(iter(self._conns))):
                idle.close()


def most_kept() -> int:
    """To how many hosts connections are kept: half of the files that may be open are left for everything else."""
    limit = open_limit()
    return _WITHOUT_LIMIT if limit is None else min(MOST_KEPT, limit // 2)
