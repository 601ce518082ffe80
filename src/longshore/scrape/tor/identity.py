"""Identities: they keep the traffic of one session separate from that of every other session.

Tor uses different circuits, and so usually different exits, for connections with different SOCKS logins. Tor does not
check the login, so any value works: the identity of a session is a login, and a new login is a new identity at once.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import msgspec

from longshore.scrape.tor.control import TorControl

_MOST = 10_000
"""Renewed sessions in memory. Tor itself drops a session that is idle for ten minutes."""


class Endpoint(msgspec.Struct, frozen=True):
    """The address of a running Tor. It can be sent to another process of the same user."""

    host: str
    socks_port: int
    control_port: int
    cookie: str
    """The cookie file that authenticates us to the control port."""

    @property
    def plain_proxy(self) -> str:
        """The SOCKS URL without a login."""
        return f"socks5://{self.host}:{self.socks_port}"

    def proxy(self, login: str) -> str:
        """Return the SOCKS URL of an identity. Tor resolves names (`socks5h`), never this machine."""
        return f"socks5h://{login}@{self.host}:{self.socks_port}"

    async def new_circuits(self) -> None:
        """Use new circuits for new connections. Tor does this once in ten seconds; return when it has."""
        # Each call has its own connection, so that a cancelled call does not disturb another.
        async with await TorControl.open(self.host, self.control_port, cookie=Path(self.cookie)) as control:
            await control.new_circuits()


class Identities:
    """The login of each session. Two instances never share a login, and so neither do two processes."""

    def __init__(self) -> None:
        self._first = secrets.token_hex(8)
        self._renewed: dict[str, str] = {}

    def login(self, session: str) -> str:
        """Return `user:password` for a session, the same until it is renewed."""
        # A digest, because a name may be too long for a login or begin with a prefix that Tor reserves.
        user = hashlib.blake2s(session.encode(errors="surrogatepass"), digest_size=8).hexdigest()
        return f"{user}:{self._renewed.get(session, self._first)}"

    def renew(self, session: str) -> None:
        """Give one session a new login."""
        self._renewed.pop(session, None)
        self._renewed[session] = secrets.token_hex(8)
        if len(self._renewed) > _MOST:
            del self._renewed[next(iter(self._renewed))]

    def renew_all(self) -> None:
        """Give every session a new login."""
        self._first = secrets.token_hex(8)
        self._renewed.clear()
