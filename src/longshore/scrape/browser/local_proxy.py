"""A proxy on loopback between a browser and the network.

Without a proxy of the user and of the environment, it connects to the sites itself, and only to addresses that the
policy permits: a browser resolves names and runs scripts out of our sight. With a proxy that has a login, it adds the
password: browsers accept none on their command line, and none at all for SOCKS. Every plain request gets its own
upstream connection, so the local proxy need not know where a body ends. It serves no other user of the machine.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import re
import socket
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias
from urllib.parse import unquote, urlsplit

from python_socks import ProxyConnectionError, ProxyError, ProxyTimeoutError, ProxyType
from python_socks.async_.asyncio import Proxy as SocksProxy

from longshore.errors import WorkerError
from longshore.scrape.http.address_policy import AddressPolicy, OwnHosts, PrivateAddressError
from longshore.scrape.http.resolver import Resolver
from longshore.scrape.proxies.environment import EnvironmentProxies
from longshore.system.loopback_peer import is_own_peer
from longshore.url import mask_url

_CONNECT_SECONDS = 30.0
_LONGEST_HEAD = 256 * 1024
_CHUNK = 64 * 1024
# Hop-by-hop headers of the browser; our upstream connection is closed after each request.
_DROPPED = (b"proxy-connection:", b"connection:", b"proxy-authorization:", b"keep-alive:")
_SOCKS = {"socks4": ProxyType.SOCKS4, "socks5": ProxyType.SOCKS5, "socks5h": ProxyType.SOCKS5}
_NO_LOGIN = 407
_MOST_TROUBLES = 1000
_STATUS = re.compile(rb"HTTP/1\.[01] (\d{3})")

_Streams: TypeAlias = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def local_proxy_for(proxy: str | None, policy: AddressPolicy) -> LocalProxy | None:
    """Start and return a local proxy, unless the browser can use `proxy` directly: it has no login."""
    if proxy is not None and urlsplit(proxy).username is None:
        return None
    local_proxy = LocalProxy(proxy, policy)
    await local_proxy.start()
    return local_proxy


class Trouble(NamedTuple):
    """The reason why we were not connected to a host."""

    words: str
    own: bool = False
    """True if the proxy could not be reached or refused our login, False if it could not reach this host."""
    refusal: PrivateAddressError | None = None
    """The error if we refused to connect."""


def trouble_of(local_proxy: LocalProxy | None, url: str) -> Trouble | None:
    """Return `local_proxy.trouble(url)`; None without a local proxy."""
    return None if local_proxy is None else local_proxy.trouble(url)


class LocalProxy:
    """A proxy server for one browser. It listens on loopback only."""

    def __init__(self, proxy: str | None, policy: AddressPolicy) -> None:
        """Send requests through `proxy`; without one, through that of the environment, or to the sites themselves.

        The sites must be at addresses that `policy` permits.
        """
        parts = urlsplit(proxy or "")
        self._direct = proxy is None
        self._environment = EnvironmentProxies.of(os.environ) if proxy is None else None
        self._usual: dict[str, LocalProxy] = {}
        """For each proxy of the environment, the local proxy that uses it. It does not listen itself."""
        self._policy = policy
        self._resolver = Resolver()
        self._own: dict[object, OwnHosts] = {}
        self._scheme = parts.scheme.lower()
        self._host, self._port = parts.hostname or "", parts.port or 0
        self._user, self._password = unquote(parts.username or ""), unquote(parts.password or "")
        self._shown = mask_url(proxy or "")
        self._server: asyncio.Server | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._troubles: dict[str, Trouble] = {}

    @property
    def server(self) -> str:
        """The proxy URL that the browser is given."""
        if self._server is None:
            raise RuntimeError("the local proxy is not started")
        return f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    def trouble(self, url: str) -> Trouble | None:
        """Return the trouble at the last request to the host of `url`; None if that request succeeded."""
        return self._troubles.get(urlsplit(url).hostname or "")

    def allow(self, tab: object, own: OwnHosts | None) -> None:
        """Let pages reach the hosts of the job that uses `tab`, even on a private network; None ends it.

        A browser does not tell which tab sends a request, so this holds for all tabs of the browser meanwhile.
        """
        if own is None:
            self._own.pop(tab, None)
        else:
            self._own[tab] = own

    async def start(self) -> None:
        """Listen on a free port."""
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0, limit=_LONGEST_HEAD)

    async def close(self) -> None:
        """Stop listening and close the open connections."""
        if self._server is not None:
            self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        ports = writer.get_extra_info("peername")[1], writer.get_extra_info("sockname")[1]
        try:
            if await asyncio.to_thread(is_own_peer, *ports):
                await self._serve(reader, writer)
        except asyncio.CancelledError:
            # Only `close` cancels this task, and asyncio's streams would log a cancelled task as an error.
            return
        except (OSError, EOFError, asyncio.LimitOverrunError, ValueError):
            # One side closed the connection or did not speak HTTP; the browser sees its connection end.
            return
        finally:
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await (self._usual_proxy(head) or self)._forward(head, reader, writer)

    def _usual_proxy(self, head: bytes) -> LocalProxy | None:
        """Return the local proxy for the proxy that the environment names for a request; None if it names none."""
        if self._environment is None:
            return None
        method, target, _ = head.partition(b"\r\n")[0].split(b" ", 2)
        url = f"https://{target.decode()}" if method == b"CONNECT" else target.decode()
        usual = self._environment.proxy_for(url)
        if usual is None:
            return None
        if usual.url not in self._usual:
            made = self._usual[usual.url] = LocalProxy(usual.url, self._policy)
            made._own, made._troubles = self._own, self._troubles
        return self._usual[usual.url]

    async def _forward(self, head: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line, *headers = head[:-4].split(b"\r\n")
        method, target, version = line.split(b" ", 2)
        tunnel = method == b"CONNECT"
        parts = urlsplit(f"//{target.decode()}" if tunnel else target.decode())
        host, port = parts.hostname or "", parts.port or 80
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                up_reader, up_writer = await self._connect(host, port)
        except WorkerError as error:
            refusal = error if isinstance(error, PrivateAddressError) else None
            self._note_trouble(host, Trouble(str(error), refusal=refusal))
            return
        except (OSError, TimeoutError, EOFError, ProxyError, ProxyConnectionError, ProxyTimeoutError) as error:
            if self._direct:
                self._note_trouble(host, Trouble(_browser_words(error)))
            else:
                self._note(host, str(error) or "it does not respond", own=not isinstance(error, ProxyError))
            return
        judge = None
        try:
            if not self._direct and self._scheme not in _SOCKS:
                up_writer.write(_joined(line, self._with_login(headers if tunnel else _closing(headers))))
                judge = partial(self._from_site, host, tunnel=tunnel)
            elif tunnel:
                writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
            else:
                path = parts._replace(scheme="", netloc="", fragment="").geturl() or "/"
                up_writer.write(_joined(b" ".join([method, path.encode(), version]), _closing(headers)))
            if judge is None:
                self._troubles.pop(host, None)
            sending = asyncio.create_task(_pump(reader, up_writer))
            try:
                await _pump(up_reader, writer, judge)
            finally:
                sending.cancel()
                await asyncio.gather(sending, return_exceptions=True)
        finally:
            up_writer.close()

    async def _connect(self, host: str, port: int) -> _Streams:
        shown = host if port in (80, 443) else f"{host}:{port}"
        own = await self._is_own(shown)
        if not self._direct:
            self._policy.check_text(shown, own=own)
            return await self._connect_to_proxy(host, port)
        addresses = self._policy.permitted(shown, await self._resolver.addresses(host), own=own)
        for address in addresses[:-1]:
            with contextlib.suppress(OSError):
                async with asyncio.timeout(_CONNECT_SECONDS / len(addresses)):
                    return await asyncio.open_connection(address, port)
        return await asyncio.open_connection(addresses[-1], port)

    async def _is_own(self, host: str) -> bool:
        for own in list(self._own.values()):
            if await own.include(host):
                return True
        return False

    async def _connect_to_proxy(self, host: str, port: int) -> _Streams:
        kind = _SOCKS.get(self._scheme)
        if kind is None:
            secure = True if self._scheme == "https" else None
            return await asyncio.open_connection(self._host, self._port, ssl=secure)
        # Let a SOCKS5 proxy resolve names: a local lookup would reveal the sites to this machine's name server.
        proxy = SocksProxy(
            kind, self._host, self._port, username=self._user, password=self._password, rdns=kind is ProxyType.SOCKS5
        )
        return await asyncio.open_connection(sock=await proxy.connect(host, port))

    def _with_login(self, headers: list[bytes]) -> list[bytes]:
        if not self._user and not self._password:
            return headers
        login = base64.b64encode(f"{self._user}:{self._password}".encode())
        kept = [header for header in headers if not header.lower().startswith(b"proxy-authorization:")]
        return [*kept, b"Proxy-Authorization: Basic " + login]

    def _from_site(self, host: str, first: bytes, *, tunnel: bool) -> bool:
        """Return whether a response that begins with `first` comes from the site.

        If it is the proxy's own refusal, record the trouble instead.
        """
        found = _STATUS.match(first)
        status = int(found[1]) if found else 0
        if status == _NO_LOGIN:
            self._note(host, "it does not accept the user name and password (407)", own=True)
            return False
        if tunnel and status >= 400:
            self._note(host, f"it answered {status}", own=False)
            return False
        self._troubles.pop(host, None)
        return True

    def _note(self, host: str, what: str, *, own: bool) -> None:
        self._note_trouble(host, Trouble(f"the proxy {self._shown} failed: {what}", own))

    def _note_trouble(self, host: str, trouble: Trouble) -> None:
        if len(self._troubles) >= _MOST_TROUBLES:
            del self._troubles[next(iter(self._troubles))]
        self._troubles[host] = trouble


def _browser_words(error: Exception) -> str:
    """Return a browser's own name for a failed connection."""
    match error:
        case TimeoutError():
            return "ERR_CONNECTION_TIMED_OUT"
        case ConnectionRefusedError():
            return "ERR_CONNECTION_REFUSED"
        case socket.gaierror():
            return "ERR_NAME_NOT_RESOLVED"
        case _:
            return "ERR_ADDRESS_UNREACHABLE"


def _closing(headers: list[bytes]) -> list[bytes]:
    return [*(header for header in headers if not header.lower().startswith(_DROPPED)), b"Connection: close"]


def _joined(line: bytes, headers: list[bytes]) -> bytes:
    return b"\r\n".join([line, *headers, b"", b""])


async def _pump(
    source: asyncio.StreamReader, sink: asyncio.StreamWriter, judge: Callable[[bytes], bool] | None = None
) -> None:
    """Copy `source` to `sink` until it ends; stop at once if `judge` returns False for the first chunk."""
    while chunk := await source.read(_CHUNK):
        if judge is not None and not judge(chunk):
            return
        judge = None
        sink.write(chunk)
        await sink.drain()
    # This direction is finished; the other side may still send.
    if sink.can_write_eof():
        sink.write_eof()
