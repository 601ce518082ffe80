"""The connection to the HTTP API: pooled requests with the key, and the errors of the server as exceptions.

No request is repeated here. A request without an answer raises `QueueUnavailableError`, and the caller decides: every
method of the contract says whether it may be called again.
"""

from __future__ import annotations

import ipaddress
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from io import BytesIO
from typing import TypeVar
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
import msgspec

from longshore import errors
from longshore.errors import LongshoreError, NotFoundError, QueueError, QueueUnavailableError, SettingsError, UsageError
from longshore.media.http.wire import JSON, Problem
from longshore.stored import UNFIT, refusal
from longshore.url import mask_url

T = TypeVar("T")

KEY_VARIABLE = "LONGSHORE_API_KEY"
VERSION = "/v1"
_CONNECT_SECONDS = 10.0
_ANSWER_SECONDS = 60.0
"""Longer than any statement of a medium behind the server may take."""
_CONNECTIONS = 32
_KEEP_SECONDS = 30.0
"""Less than the server keeps an idle connection, so that a request never meets one that was just closed."""
_LARGE = 1 << 20
"""From this size on, aiohttp wants a body that it can send in parts."""
_CODES: dict[str, type[LongshoreError]] = {
    each.__name__: each
    for each in vars(errors).values()
    if isinstance(each, type) and issubclass(each, LongshoreError) and not issubclass(each, errors.WorkerError)
}


def _checked(url: str) -> str:
    """Return the URL without a slash at its end. Raise `SettingsError` if no server has this URL."""
    shown = mask_url(url)
    parts = urlsplit(url)
    if "@" in parts.netloc:
        raise SettingsError(
            f"'{shown}' has a login, which a server does not take. Set {KEY_VARIABLE} to your key instead."
        )
    if not parts.path.rstrip("/").endswith("/api"):
        raise SettingsError(
            f"'{shown}' is not the URL of a server, which ends in /api. If it is a git repository, write git+{shown}"
        )
    return url.rstrip("/")


def _environment_proxy(url: str) -> str | None:
    """Return the proxy that the environment names for a URL; None for this machine and for `NO_PROXY`."""
    parts = urlsplit(url)
    try:
        local = ipaddress.ip_address(parts.hostname or "").is_loopback
    except ValueError:
        local = parts.hostname == "localhost"
    if local or proxy_bypass(parts.netloc):
        return None
    named = getproxies()
    proxy = named.get(parts.scheme) or named.get("all")
    if not proxy:
        return None
    spelled = proxy if "://" in proxy else f"http://{proxy}"
    if urlsplit(spelled).scheme not in {"http", "https"}:
        raise SettingsError(
            f"The server at {mask_url(url)} cannot be reached through {mask_url(spelled)}, which the environment names:"
            " only HTTP proxies can be used. Name one in HTTPS_PROXY or HTTP_PROXY, or the server in NO_PROXY."
        )
    return spelled


class ApiConnection:
    """Requests to one server."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self.url = _checked(url)
        self._base = self.url + VERSION
        self._key = os.environ.get(KEY_VARIABLE, "") if key is None else key
        self._headers = {"Authorization": f"Bearer {self._key}", "Accept": JSON}
        self._headers_with_body = self._headers | {"Content-Type": JSON}
        self._proxy = _environment_proxy(self.url)
        self._session: aiohttp.ClientSession | None = None
        if not self._key:
            raise SettingsError(
                f"The server at {mask_url(self.url)} takes only requests with a key. Fix: set {KEY_VARIABLE} to "
                "the key that the owner of the server made for you with `longshore keys add`."
            )

    async def get(self, path: str, answer: type[T], *, params: dict[str, str] | None = None) -> T:
        """Return the answer to a GET."""
        return await self._send("GET", path, answer, params=params)

    async def download(self, path: str) -> bytes | None:
        """Return the bytes of an answer; None if there is no such thing."""
        try:
            return await self._receive("GET", path)
        except NotFoundError:
            return None

    async def lines(self, path: str, kind: type[T], params: dict[str, str]) -> AsyncIterator[T]:
        """Yield the lines of an answer of any length. An empty line ends it; without one, the server stopped."""
        decode = msgspec.json.Decoder(kind).decode
        rest = b""
        with self._faults():
            async with self._opened().get(
                self._base + path,
                params=params,
                headers=self._headers,
                timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, sock_read=_ANSWER_SECONDS),
                allow_redirects=False,
            ) as response:
                if response.status >= 300:
                    raise self._error(response.status, await response.read())
                async for chunk in response.content.iter_any():
                    *whole, rest = (rest + chunk).split(b"\n")
                    for line in whole:
                        if not line:
                            return
                        yield decode(line)
        raise QueueUnavailableError(f"{mask_url(self.url)} stopped in the middle of an answer.")

    async def post(
        self, path: str, body: msgspec.Struct | msgspec.Raw, answer: type[T], *, wait_seconds: float = 0.0
    ) -> T:
        """Return the answer to a POST. The server may wait for `wait_seconds` before it answers."""
        try:
            content = msgspec.json.encode(body)
        except UNFIT as error:
            raise refusal(error, "A request") from error
        return await self._send("POST", path, answer, content=content, wait_seconds=wait_seconds)

    async def _send(
        self,
        method: str,
        path: str,
        answer: type[T],
        *,
        params: dict[str, str] | None = None,
        content: bytes | None = None,
        wait_seconds: float = 0.0,
    ) -> T:
        received = await self._receive(method, path, params=params, content=content, wait_seconds=wait_seconds)
        try:
            return msgspec.json.decode(received, type=answer)
        except UNFIT as error:
            raise QueueError(
                f"{mask_url(self.url)} answers, but not as a Longshore server does: {error}. Is the URL right? "
                "It ends in /api."
            ) from error

    async def _receive(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        content: bytes | None = None,
        wait_seconds: float = 0.0,
    ) -> bytes:
        with self._faults():
            async with self._opened().request(
                method,
                self._base + path,
                params=params,
                data=content if content is None or len(content) < _LARGE else BytesIO(content),
                headers=self._headers if content is None else self._headers_with_body,
                timeout=aiohttp.ClientTimeout(sock_connect=_CONNECT_SECONDS, total=_ANSWER_SECONDS + wait_seconds),
                allow_redirects=False,
            ) as response:
                received = await response.read()
                if response.status >= 300:
                    raise self._error(response.status, received)
                return received

    @contextmanager
    def _faults(self) -> Iterator[None]:
        """Raise faults of the connection as errors of ours."""
        try:
            yield
        except (aiohttp.ClientConnectorCertificateError, ssl.SSLError) as error:
            raise QueueError(f"The certificate of {mask_url(self.url)} is not valid: {error}") from error
        except (aiohttp.InvalidURL, aiohttp.NonHttpUrlClientError) as error:
            raise SettingsError(f"'{mask_url(self.url)}' is not the URL of a server. Write https://host/api") from error
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            reason = str(error) or type(error).__name__
            raise QueueUnavailableError(f"{mask_url(self.url)} does not answer: {reason}") from error
        except UnicodeEncodeError as error:
            raise refusal(error, "A part of the request") from error

    def _error(self, status: int, received: bytes) -> LongshoreError:
        try:
            problem = msgspec.json.decode(received, type=Problem)
        except UNFIT:
            problem = Problem(title="", status=status)
        told = problem.detail or problem.title or f"status {status}"
        where = mask_url(self.url)
        match status:
            case 401:
                return SettingsError(f"{where} does not accept the key in {KEY_VARIABLE}: {told}")
            case 403:
                return QueueError(f"{where} refuses this: {told}")
            case 502 | 503 | 504:
                return QueueUnavailableError(f"{where}: {told}")
            case 429:
                return QueueUnavailableError(f"{where} asks to wait: {told}")
        if (kind := _CODES.get(problem.code)) is not None:
            return kind(told)
        if status in {404, 405} and not problem.code:
            return QueueError(f"{where} has no such page. Is it a Longshore server, and does its URL end in /api?")
        return UsageError(told) if status < 500 else QueueError(f"{where}: {told}")

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            connector = aiohttp.TCPConnector(limit=_CONNECTIONS, keepalive_timeout=_KEEP_SECONDS)
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=True,
                # Without `trust_env`: it looks for proxies and at ~/.netrc in threads, again for each request, and a
                # login in that file would take the place of the key. The session has no headers of its own: the proxy
                # would get them, too.
                proxy=self._proxy,
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
