"""The server process: opens the queue, listens, and stops gently."""

from __future__ import annotations

import asyncio
import ipaddress
import signal
import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn

from longshore.clock import SystemClock
from longshore.errors import SettingsError
from longshore.media import open_queue
from longshore.observe.health_files import told
from longshore.server.app import application
from longshore.server.auth.keys import KeyStore
from longshore.server.bounded_connection import BoundedConnection
from longshore.server.own_health import ServerHealth
from longshore.server.served import Served
from longshore.server.traces.trace_store import TraceStore
from longshore.system.descriptors import raise_open_limit
from longshore.url import mask_url

_KEEP_ALIVE_SECONDS = 75
"""Longer than clients keep an idle connection, so that none sends a request into one that is just being closed."""
_SHUTDOWN_SECONDS = 20


@dataclass(frozen=True)
class Listening:
    """Where to listen. With a certificate and its key, over TLS."""

    host: str = "127.0.0.1"
    port: int = 8000
    certificate: Path | None = None
    private_key: Path | None = None
    names: tuple[str, ...] = ()
    """The host names under which the server is reached, besides addresses and `localhost`."""

    def __post_init__(self) -> None:
        if (self.certificate is None) != (self.private_key is None):
            raise SettingsError("TLS needs both files: --tls-certificate and --tls-key.")
        for file in (self.certificate, self.private_key):
            if file is not None and not file.is_file():
                raise SettingsError(f"There is no file {file}.")

    @property
    def scheme(self) -> str:
        return "http" if self.certificate is None else "https"

    @property
    def is_local(self) -> bool:
        """Whether only programs on this machine can connect."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host == "localhost"


class _Server(uvicorn.Server):
    """A server whose long polls end as soon as it is asked to stop."""

    def __init__(self, config: uvicorn.Config, closing: asyncio.Event) -> None:
        super().__init__(config)
        self._closing = closing

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at Ctrl-C or SIGTERM. The signal is not raised again, as uvicorn would: stopping is a success."""
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begin to stop; a second Ctrl-C stops at once."""
        self._closing.set()
        super().handle_exit(sig, frame)


async def serve(
    url: str,
    keys: KeyStore,
    traces: TraceStore,
    listening: Listening,
    ready: Callable[[str, str | None], None],
    *,
    read_only: bool = False,
) -> None:
    """Serve a queue until the process is asked to stop. With `read_only`, every request that writes is refused.

    `ready` is called with the server's own URL, and with a link that logs one person in, if there is an admin key.
    """
    raise_open_limit()
    opened = listen(listening)
    clock = SystemClock()
    queue = await open_queue(url, clock=clock)
    served = Served.of(queue, keys, clock, traces=traces, read_only=read_only, where=mask_url(url))
    config = uvicorn.Config(
        application(served, listening.names),
        http=BoundedConnection,
        log_config=None,  # our own log masks secrets
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,  # or else a client could give itself a new address with each wrong key
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=_SHUTDOWN_SECONDS,
        ssl_certfile=listening.certificate,
        ssl_keyfile=listening.private_key,
    )
    host, port = opened.getsockname()[:2]
    own = f"{listening.scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    code = served.sessions.make_code()
    ready(own, None if code is None else f"{own}/login?code={code}")
    health = ServerHealth(served.queue, clock)
    asking = asyncio.create_task(health.keep())
    try:
        async with told(health, traces.data_folder):
            await _Server(config, served.closing).serve(sockets=[opened])
    finally:
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


def event_loop() -> asyncio.AbstractEventLoop:
    """Return a new event loop for a server: the quickest that there is."""
    new: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if sys.platform != "win32":
        import uvloop

        new = uvloop.new_event_loop
    return new()


def listen(listening: Listening) -> socket.socket:
    """Return a socket that listens there. Raise `SettingsError` if that is not possible."""
    try:
        family = socket.AF_INET6 if ":" in listening.host else socket.AF_INET
        opened = socket.create_server((listening.host, listening.port), family=family, backlog=2048)
        # Accepted connections inherit it. asyncio sets it only on sockets that were created with the protocol's number,
        # which these are not; without it the second part of an answer waits 40 ms for an acknowledgement.
        opened.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return opened
    except OSError as error:
        raise SettingsError(
            f"The server cannot listen on {listening.host}, port {listening.port}: {error.strerror}. "
            "Another server may run there: give another --port."
        ) from error
