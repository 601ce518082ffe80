"""A resolver that asks no name server: Python imports it at the start of every process that tests start.

Names of this machine are resolved as always. `example.com` is this machine, too; every other name is unknown.
"""

from __future__ import annotations

import _socket
import ipaddress
from typing import Any

_resolve = _socket.getaddrinfo
_OWN = {None, "", "localhost", _socket.gethostname()}
_LOOPBACK = {"example.com": "127.0.0.1"}


def _getaddrinfo(host: Any, *args: Any, **named: Any) -> Any:
    name = host.decode() if isinstance(host, bytes) else host
    if name not in _OWN:
        name = _LOOPBACK.get(name, name)
        try:
            ipaddress.ip_address(name.partition("%")[0])
        except ValueError:
            raise _socket.gaierror(_socket.EAI_NONAME, "Name or service not known (tests ask no name server)") from None
    return _resolve(name, *args, **named)


_socket.getaddrinfo = _getaddrinfo
