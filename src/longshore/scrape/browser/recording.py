"""The responses that a browser page loaded, read from the browser when they are needed: for bundles and kept pages.

Images, fonts and media are left out, and what is larger than the limits: the page can be shown again without them.
"""

from __future__ import annotations

import asyncio
import base64
import time
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from longshore.extensions.traces import ExchangeKind
from longshore.scrape.capture.exchange import Exchange

if TYPE_CHECKING:
    from playwright import async_api as api
    from selenium.webdriver.remote.webdriver import WebDriver

MOST_RESPONSES = 40
MOST_BYTES = 4 * 1024 * 1024
"""The size of the bodies of one page."""
_MOST_NOTED = 400
"""Requests of one page that are noted. A page that goes on asking for hours must not fill the memory."""
_SECONDS = 3.0
"""How long reading the responses of a page may take."""
_KEPT = frozenset({"document", "script", "stylesheet", "xhr", "fetch"})


class _Collected:
    """The responses that were read, up to the limits."""

    def __init__(self) -> None:
        self.exchanges: list[Exchange] = []
        self._size = 0

    @property
    def full(self) -> bool:
        return len(self.exchanges) >= MOST_RESPONSES or self._size >= MOST_BYTES

    def add(self, exchange: Exchange) -> None:
        if self._size + len(exchange.body) <= MOST_BYTES:
            self._size += len(exchange.body)
            self.exchanges.append(exchange)


class PlaywrightRecorder:
    """Notes the finished requests of a Playwright page. Their responses stay in the browser until they are read."""

    def __init__(self, page: api.Page) -> None:
        self._requests: deque[api.Request] = deque()
        page.on("requestfinished", self._note)

    def _note(self, request: api.Request) -> None:
        if request.resource_type in _KEPT and len(self._requests) < _MOST_NOTED:
            self._requests.append(request)

    def clear(self) -> None:
        """Forget the requests of the page before."""
        self._requests.clear()

    async def loaded(self) -> list[Exchange]:
        """Return the responses since `clear`, each only once. A response that the browser has dropped is left out."""
        from playwright import async_api as api

        collected = _Collected()
        with suppress(TimeoutError):
            async with asyncio.timeout(_SECONDS):
                while self._requests and not collected.full:
                    with suppress(api.Error):
                        collected.add(await _of_playwright(self._requests.popleft()))
        self._requests.clear()
        return collected.exchanges


async def _of_playwright(request: api.Request) -> Exchange:
    response = await request.response()
    if response is None:
        return Exchange(url=request.url)
    redirected = 300 <= response.status < 400
    return Exchange(
        kind=ExchangeKind.LOADED,
        method=request.method,
        url=request.url,
        final_url=request.url,
        request_headers=dict(request.headers),
        request_body=request.post_data_buffer or b"",
        status=response.status,
        headers=dict(response.headers),
        body=b"" if redirected else await response.body(),
        at=request.timing["startTime"] / 1000,
        seconds=max(0.0, request.timing["responseEnd"] / 1000),
    )


class SeleniumRecorder:
    """Reads the requests of a page from the driver's log of the browser's network events."""

    def __init__(self, driver: WebDriver) -> None:
        self._driver = driver

    def clear(self) -> None:
        """Forget the requests of the page before."""
        self._events()

    def loaded(self) -> list[Exchange]:
        """As `PlaywrightRecorder.loaded`."""
        from selenium.common.exceptions import WebDriverException

        collected, ends_at = _Collected(), time.monotonic() + _SECONDS
        for request_id, exchange in _finished(self._events()):
            if collected.full or time.monotonic() > ends_at:
                break
            with suppress(WebDriverException):
                body = b"" if exchange.status and 300 <= exchange.status < 400 else self._body(request_id)
                collected.add(msgspec.structs.replace(exchange, body=body))
        return collected.exchanges

    def _events(self) -> list[dict[str, Any]]:
        # Not `get_log`, which only the class of local Chromium drivers has.
        entries = self._driver.execute("getLog", {"type": "performance"})["value"]
        return [msgspec.json.decode(each["message"])["message"] for each in entries]

    def _body(self, request_id: str) -> bytes:
        found = self._driver.execute_cdp_cmd("Network.getResponseBody", {"requestId": request_id})
        return base64.b64decode(found["body"]) if found["base64Encoded"] else found["body"].encode()


def _finished(events: list[dict[str, Any]]) -> list[tuple[str, Exchange]]:
    """Return the answered requests of the network events, without bodies, in the order of the requests."""
    under_way: dict[str, Exchange] = {}
    finished: list[tuple[str, Exchange]] = []
    for event in events:
        of = event.get("params", {})
        request_id = of.get("requestId", "")
        match event.get("method"):
            case "Network.requestWillBeSent":
                before = under_way.pop(request_id, None)
                if before is not None and "redirectResponse" in of:
                    finished.append((request_id, _answered(before, of["redirectResponse"])))
                if of.get("type", "").lower() in _KEPT and len(finished) < _MOST_NOTED:
                    under_way[request_id] = _sent(of)
            case "Network.responseReceived" if request_id in under_way:
                under_way[request_id] = _answered(under_way[request_id], of["response"])
            case "Network.loadingFinished" if request_id in under_way:
                exchange = under_way.pop(request_id)
                if exchange.status is not None:
                    finished.append((request_id, exchange))
    return finished


def _sent(event: dict[str, Any]) -> Exchange:
    request = event["request"]
    return Exchange(
        kind=ExchangeKind.LOADED,
        method=request["method"],
        url=request["url"],
        final_url=request["url"],
        request_headers=request["headers"],
        request_body=request.get("postData", "").encode(),
        at=event.get("wallTime", 0.0),
    )


def _answered(exchange: Exchange, response: dict[str, Any]) -> Exchange:
    return msgspec.structs.replace(exchange, status=response["status"], headers=response["headers"])
