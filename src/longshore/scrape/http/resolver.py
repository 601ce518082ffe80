"""Resolve host names in this process, for programs that would otherwise resolve them out of our sight.

curl and browsers resolve names themselves. Only if we resolve a name, and they connect to the address we found, is the
address that the policy judged the one that is connected to.
"""

from __future__ import annotations

import asyncio
import socket
import time

_KEPT_SECONDS = 300.0
_REMEMBERED = 10_000


class Resolver:
    """Addresses of names, each remembered for five minutes."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[float, list[str]]] = {}

    async def addresses(self, name: str) -> list[str]:
        """Return the addresses of a name; an address is its own. Raise `OSError` if there are none."""
        known = self._known.get(name)
        if known is not None and time.monotonic() < known[0]:
            return known[1]
        found = await asyncio.get_running_loop().getaddrinfo(name, None, type=socket.SOCK_STREAM)
        addresses = list(dict.fromkeys(str(each[4][0]) for each in found))
        if len(self._known) >= _REMEMBERED:
            del self._known[next(iter(self._known))]
        self._known[name] = time.monotonic() + _KEPT_SECONDS, addresses
        return addresses
