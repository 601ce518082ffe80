"""The user at the other end of a connection on loopback.

Every user of a machine can connect to a port on loopback. A server that holds a password or serves one program asks
here before it answers.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path

_TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def is_own_peer(peer_port: int, own_port: int) -> bool:
    """Return whether the connection from `peer_port` to our `own_port`, both on loopback, is of a process of this user.

    Linux tells the owner of every socket. On other systems the sockets of our own descendants are compared.
    """
    if sys.platform == "linux":
        return any(_is_own_row(row, peer_port, own_port) for table in _TABLES for row in _rows(table))
    else:
        return _is_of_descendant(peer_port, own_port)


def _rows(table: Path) -> list[str]:
    try:
        return table.read_text().splitlines()[1:]
    except OSError:
        return []


def _is_own_row(row: str, peer_port: int, own_port: int) -> bool:
    _, local, remote, _, _, _, _, owner, *_ = row.split(maxsplit=8)
    ports = int(local.rpartition(":")[2], 16), int(remote.rpartition(":")[2], 16)
    return sys.platform != "win32" and ports == (peer_port, own_port) and int(owner) == os.getuid()


def _is_of_descendant(peer_port: int, own_port: int) -> bool:
    import psutil

    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.Error):
            for each in process.net_connections("tcp"):
                if each.raddr and (each.laddr.port, each.raddr.port) == (peer_port, own_port):
                    return True
    return False
