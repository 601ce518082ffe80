"""A visitor of the web page: a client that keeps cookies, as a browser does, and sends what a test wants."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from selectolax.lexbor import LexborHTMLParser as HTMLParser
from tests.server.conftest import Api

from longshore.server.auth.keys import Scope

BROWSER = {"Accept": "text/html", "Sec-Fetch-Site": "same-origin"}


class Answer:
    """The answer to a visitor."""

    def __init__(self, status: int, text: str, headers: Any) -> None:
        self.status, self.text, self.headers = status, text, headers

    @property
    def page(self) -> HTMLParser:
        return HTMLParser(self.text)


class Visitor:
    """Someone at the page."""

    def __init__(self, api: Api, session: aiohttp.ClientSession) -> None:
        self.api = api
        self.url = api.url.removesuffix("/api/v1")
        self.session = session

    async def get(self, path: str, **headers: str) -> Answer:
        """Return a page; redirects are not followed."""
        return await self._send("GET", path, None, headers)

    async def post(self, path: str, fields: Any = None, **headers: str) -> Answer:
        """Send a form as a browser does."""
        return await self._send("POST", path, fields or {}, headers)

    async def log_in(self, *scopes: Scope, **limits: Any) -> str:
        """Begin a session with a new key, and return the key."""
        key = self.api.make(*(scopes or (Scope.ADMIN,)), **limits)
        answer = await self.post("/login", {"key": key})
        assert answer.status == 200, answer.text
        return key

    async def _send(self, method: str, path: str, fields: Any, headers: dict[str, str]) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        sent = {name: value for name, value in (BROWSER | named).items() if value}
        async with self.session.request(
            method, self.url + path, data=fields, headers=sent, allow_redirects=False
        ) as response:
            return Answer(response.status, await response.text(), response.headers)


@pytest.fixture
async def visitor(api: Api) -> AsyncIterator[Visitor]:
    async with aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True)) as session:
        yield Visitor(api, session)
