"""Real proxies and a real site on this machine.

Each proxy goes out with an address of its own (127.0.1.N), so that the site can tell them apart.
"""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
from aiohttp import web

from longshore.scrape.proxies import ProxyPool
from longshore.scrape.proxies.connection import connector_for, request_proxy
from longshore.scrape.proxies.proxy_file import Proxy

Login = tuple[str, str]


class ProxyServer:
    """A proxy that forwards and tunnels. It requires `login`, if given."""

    scheme = "http"

    def __init__(self, source: str = "127.0.0.1", login: Login | None = None) -> None:
        self.source = source
        self.login = login
        self.tunnels = 0
        """The number of CONNECT requests (HTTP), or of all requests (SOCKS)."""
        self.names: list[str] = []
        """The targets it was asked to reach."""
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def proxy(self) -> Proxy:
        """The proxy for a pool, with its login."""
        return self.proxy_with(self.login)

    def proxy_with(self, login: Login | None) -> Proxy:
        assert self._server is not None
        port = self._server.sockets[0].getsockname()[1]
        user = f"{login[0]}:{login[1]}@" if login else ""
        return Proxy(f"{self.scheme}://{user}127.0.0.1:{port}")

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass  # one side closed the connection, or the test is over
        finally:
            self._tasks.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *headers = head.removesuffix("\r\n\r\n").split("\r\n")
        method, target, _ = first.split(" ")
        if self.login and f"proxy-authorization: basic {_basic(self.login)}".lower() not in head.lower():
            writer.write(
                b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            )
            await writer.drain()
            return
        self.names.append(target)
        if method == "CONNECT":
            self.tunnels += 1
            host, _, port = target.rpartition(":")
            try:
                beyond = await self._out(host, int(port))
            except OSError:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        else:
            url = urlsplit(target)
            try:
                beyond = await self._out(url.hostname or "", url.port or 80)
            except OSError:
                writer.write(b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
                return
            kept = [line for line in headers if not line.lower().startswith(("proxy-", "connection:"))]
            path = (url.path or "/") + (f"?{url.query}" if url.query else "")
            request = "\r\n".join([f"{method} {path} HTTP/1.1", *kept, "Connection: close", "", ""])
            beyond[1].write(request.encode("latin-1"))
        await _join(reader, writer, *beyond)

    async def _out(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection(host, port, local_addr=(self.source, 0))


class SocksServer(ProxyServer):
    """A SOCKS5 proxy."""

    scheme = "socks5"

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, count = await reader.readexactly(2)
        offered = await reader.readexactly(count)
        wanted = 2 if self.login else 0
        writer.write(bytes([5, wanted if wanted in offered else 0xFF]))
        if wanted not in offered:
            return
        if self.login:
            await reader.readexactly(1)
            user = await reader.readexactly((await reader.readexactly(1))[0])
            password = await reader.readexactly((await reader.readexactly(1))[0])
            right = (user.decode(), password.decode()) == self.login
            writer.write(bytes([1, 0 if right else 1]))
            if not right:
                return
        _, _, _, kind = await reader.readexactly(4)
        if kind == 1:
            host = ".".join(map(str, await reader.readexactly(4)))
        else:
            host = (await reader.readexactly((await reader.readexactly(1))[0])).decode()
        port = int.from_bytes(await reader.readexactly(2))
        self.tunnels += 1
        self.names.append(f"{host}:{port}")
        try:
            beyond = await self._out(host, port)
        except OSError:
            writer.write(bytes([5, 5, 0, 1, 0, 0, 0, 0, 0, 0]))
            return
        writer.write(bytes([5, 0, 0, 1, 0, 0, 0, 0, 0, 0]))
        await _join(reader, writer, *beyond)


class Site:
    """A site that answers with the client's address, `allowed` times for each address, then with 403."""

    def __init__(self, allowed: int | None = None) -> None:
        self.allowed = allowed
        self.seen: Counter[str] = Counter()
        self.turned_away: Counter[str] = Counter()
        self.url = ""
        self.host = ""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Site]:
        app = web.Application()
        app.router.add_get("/{page}", self._answer)
        runner = web.AppRunner(app, shutdown_timeout=0)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        self.host = f"127.0.0.1:{runner.addresses[0][1]}"
        self.url = f"http://{self.host}"
        try:
            yield self
        finally:
            await runner.cleanup()

    async def tell(self, request: web.Request) -> web.Response:
        """Answer with the client's address, without a limit."""
        return web.Response(text=request.remote or "")

    async def _answer(self, request: web.Request) -> web.Response:
        address = request.remote or ""
        if self.allowed is not None and self.seen[address] >= self.allowed:
            self.turned_away[address] += 1
            return web.Response(status=403, text="you again")
        self.seen[address] += 1
        if request.match_info["page"] == "json":
            return web.json_response({"ip": address})
        return web.Response(text=address)


class Fetcher:
    """A client that fetches through a pool with plain aiohttp: one session per proxy, one turn per try."""

    def __init__(self, pool: ProxyPool) -> None:
        self._pool = pool
        self._sessions: dict[Proxy, aiohttp.ClientSession] = {}

    async def get(self, url: str, host: str) -> str:
        """Return the page, after any number of tries."""
        while True:
            turn = await self._pool.acquire(host)
            session = self._sessions.get(turn.proxy)
            if session is None:
                session = self._sessions[turn.proxy] = aiohttp.ClientSession(connector=connector_for(turn.proxy))
            try:
                async with session.get(url, proxy=request_proxy(turn.proxy)) as answer:
                    text = await answer.text()
            except BaseException as error:
                turn.failed(error)
                if not isinstance(error, Exception):
                    raise
                continue
            turn.answered(answer.status)
            if answer.status == 200:
                return text

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()


@asynccontextmanager
async def running(*servers: ProxyServer) -> AsyncIterator[None]:
    """Run these proxies inside the block."""
    async with AsyncExitStack() as stack:
        for server in servers:
            await server.start()
            stack.push_async_callback(server.stop)
        yield


def _basic(login: Login) -> str:
    return b64encode(":".join(login).encode()).decode()


async def _join(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    far_reader: asyncio.StreamReader,
    far_writer: asyncio.StreamWriter,
) -> None:
    async def pump(source: asyncio.StreamReader, to: asyncio.StreamWriter) -> None:
        while piece := await source.read(65536):
            to.write(piece)
            await to.drain()

    tasks = [asyncio.ensure_future(pump(reader, far_writer)), asyncio.ensure_future(pump(far_reader, writer))]
    try:
        # When one side ends, the other has no reader left.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        # Close before any wait: the end of the test may cancel the wait.
        far_writer.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
