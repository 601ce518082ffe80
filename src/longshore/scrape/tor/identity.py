"""Identities: how the traffic of one session is kept apart from that of every other.

Tor gives streams that log in to its SOCKS port differently different circuits, and so, as a rule, different exits. The
login is not checked, so any will do: a session's identity is a login, and a new identity is a new login, at once.
"""

from __future__ import annotations

import hashlib
import secrets
from pathlib import Path

import msgspec

from longshore.scrape.tor.control import TorControl
from longshore.system.loop_thread import LoopThread

_MOST = 10_000
"""Renewed sessions that are remembered. Tor itself forgets a session that is idle for ten minutes."""


class Endpoint(msgspec.Struct, frozen=True):
    """Where a Tor that runs is reached. Can be sent to another process of the same user."""

    host: str
    socks_port: int
    control_port: int
    cookie: str
    """The file that proves to the control port who we are."""

    @property
    def plain_proxy(self) -> str:
        """The SOCKS URL without a login."""
        return f"socks5://{self.host}:{self.socks_port}"

    def proxy(self, login: str) -> str:
        """The SOCKS URL of an identity. Names are resolved by Tor (`socks5h`), never on this machine."""
        return f"socks5h://{login}@{self.host}:{self.socks_port}"

    async def new_circuits(self) -> None:
        """Have all that connects from now on come out anew. Tor does so once in ten seconds; this waits its turn."""
        # A connection of its own for each wish, so that one that is cancelled half-way disturbs no other.
        async with await TorControl.open(self.host, self.control_port, cookie=Path(self.cookie)) as control:
            await control.new_circuits()


class Identities:
    """The login of each session. Two of these never share one, so neither do two processes."""

    def __init__(self) -> None:
        self._first = secrets.token_hex(8)
        self._renewed: dict[str, str] = {}

    def login(self, session: str) -> str:
        """`user:password` for a session, the same until it is renewed."""
        # A digest, because a name may be longer than a login can be, or begin as Tor reserves it.
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


class SyncTor:
    """The Tor of a worker, for its plain handlers: `kit.tor.proxy("cart-7")` without await, from any thread.

    They run in other processes than the worker, which starts the Tor and tells them where it is.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        """Set anew where the worker had to start its Tor again; sessions keep their logins."""
        self._identities = Identities()

    def proxy(self, session: str = "") -> str:
        """As `Tor.proxy`."""
        return self.endpoint.proxy(self._identities.login(session))

    def plain_proxy(self) -> str:
        """As `Tor.plain_proxy`."""
        return self.endpoint.plain_proxy

    def new_identity(self, session: str | None = None) -> None:
        """As `Tor.new_identity`."""
        if session is not None:
            self._identities.renew(session)
            return
        self._identities.renew_all()
        thread = LoopThread("longshore-tor")
        try:
            thread.call(self.endpoint.new_circuits())
        finally:
            thread.close()
