"""Browser pages without a network: a real browser whose every request gets the recorded response, or none.

The browser is told to use a proxy that does not exist, so whatever is not intercepted (WebSockets, for example) fails
as well.
"""

from __future__ import annotations

import asyncio
import base64
import socket
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from longshore.errors import Failure
from longshore.extensions.traces import ExchangeKind
from longshore.masking import mask_address
from longshore.scrape.block_pages import BlockPage
from longshore.scrape.browser.browsers import AttemptBrowsers, BrowserOptions, Browsers
from longshore.scrape.browser.find_browser import Kind
from longshore.scrape.browser.sync_browsers import SyncAttemptBrowsers, SyncBrowsers
from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.masking import mask_body
from longshore.scrape.http.offline import NotKeptError, listed, recorded_error, url_key

# The body is stored decoded, and secrets in cookies are masked.
_DROPPED = frozenset({"content-encoding", "content-length", "transfer-encoding", "set-cookie"})
_READ = {"Content-Type": "text/html; charset=utf-8", "Content-Security-Policy": "script-src 'none'"}
"""The headers of a document as the handler read it: its scripts have run, and must not run again."""


class RecordedPages:
    """The browser pages that one attempt opened, with the responses that they loaded."""

    def __init__(self, exchanges: Iterable[Exchange], source: str, failure: Failure | None = None) -> None:
        """Make the replay of `exchanges`; as `Answers` for browser pages."""
        self._source = source
        self._failure = failure
        self._opened: dict[str, list[Exchange]] = {}
        self._ends: set[str] = set()
        """The URLs at which pages ended after redirects."""
        self._loaded: dict[tuple[str, str], list[Exchange]] = {}
        self._documents: dict[str, Exchange] = {}
        for each in exchanges:
            key = url_key(each.url)
            if each.kind is ExchangeKind.OPENED:
                self._opened.setdefault(key, []).append(each)
                self._ends.add(url_key(each.final_url or each.url))
            elif each.kind is ExchangeKind.LOADED:
                self._loaded.setdefault((each.method, key), []).append(each)
            elif each.kind is ExchangeKind.DOCUMENT:
                self._documents[url_key(each.final_url)] = each

    async def permit(self, url: str) -> None:
        """Return if the URL was opened before. Raise `NotKeptError` if not, and the error if it did not load."""
        kept = self._opened.get(url_key(url))
        if not kept:
            if url_key(url) in self._ends:
                return
            raise NotKeptError(
                f"{mask_address(url)} is not among the browser pages kept of {self._source}, and nothing is fetched "
                f"here. Kept are: {listed(list(self._opened))}."
            )
        found = kept.pop(0) if len(kept) > 1 else kept[0]
        if found.status is None:
            raise recorded_error(found, self._failure)

    def reply(self, request: Mapping[str, Any], *, is_document: bool) -> Exchange | None:
        """Return the recorded response to a request of the browser; None if there is none."""
        url, method = request["url"], request["method"]
        key = url_key(url)
        kept = self._loaded.get((method, key))
        if not kept and not is_document:
            kept = self._alike(method, url)
        if kept:
            sent = mask_body(request.get("postData", "").encode())
            matching = [each for each in kept if each.request_body == sent] or kept
            found = matching[0]
            if len(matching) > 1:
                kept.remove(found)
            return found
        if not is_document:
            return None
        return self._document(key)

    def _alike(self, method: str, url: str) -> list[Exchange] | None:
        """Return the responses of a request that differs in its query only: scripts add the time to their URLs."""
        wanted = urlsplit(url)[:3]
        found = [kept for (of, _), kept in self._loaded.items() if of == method and urlsplit(kept[0].url)[:3] == wanted]
        return found[0] if len(found) == 1 else None

    def _document(self, key: str) -> Exchange | None:
        """Return what the handler read of a page whose responses were not recorded."""
        if (read := self._documents.get(key)) is not None:
            return Exchange(url=read.url, status=read.status, headers=_READ, body=read.body)
        opened = self._opened.get(key)
        if opened is None or opened[0].status is None:
            return None
        if url_key(opened[0].final_url) != key:
            return Exchange(url=opened[0].url, status=302, headers={"Location": opened[0].final_url})
        return Exchange(url=opened[0].url, status=opened[0].status, headers=opened[0].headers)


class OfflineBrowsers:
    """The `kit.browser` of attempts that run one after the other, without a network."""

    def __init__(self, kind: Kind = "playwright", *, path: str | None = None) -> None:
        """Start browsers of this `kind` when they are first used; `path` is the browser's program."""
        # Bound, but not listening: a connection to it is refused, and nothing else can take the port.
        self._closed_port = socket.socket()
        self._closed_port.bind(("127.0.0.1", 0))
        self._options = BrowserOptions(
            proxy=f"http://127.0.0.1:{self._closed_port.getsockname()[1]}", path=path, answer=self._answer
        )
        self._kind = kind
        self._pages: RecordedPages | None = None
        self._browsers: Browsers | None = None
        self._sync_browsers: SyncBrowsers | None = None

    def attempt(self, pages: RecordedPages, block_pages: Sequence[BlockPage] = ()) -> AttemptBrowsers:
        """Return the `kit.browser` of an async handler, answered from `pages`."""
        if self._browsers is None:
            self._browsers = Browsers(self._kind, self._options)
        self._pages = pages
        return self._browsers.attempt(permit=pages.permit, block_pages=block_pages)

    def sync_attempt(self, pages: RecordedPages, block_pages: Sequence[BlockPage] = ()) -> SyncAttemptBrowsers:
        """Return the `kit.browser` of a plain handler, answered from `pages`."""
        if self._sync_browsers is None:
            self._sync_browsers = SyncBrowsers(Browsers(self._kind, self._options))
        self._pages = pages
        return self._sync_browsers.attempt(permit=pages.permit, block_pages=block_pages)

    async def close(self) -> None:
        """End the browsers."""
        if self._browsers is not None:
            await self._browsers.close()
        if self._sync_browsers is not None:
            await asyncio.to_thread(self._sync_browsers.close)
        self._closed_port.close()

    def _answer(self, paused: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
        """Return the command of the debugging protocol that answers a paused request, and its parameters."""
        is_document = paused.get("resourceType") == "Document"
        found = None if self._pages is None else self._pages.reply(paused["request"], is_document=is_document)
        if found is None or found.status is None:
            return "Fetch.failRequest", {"requestId": paused["requestId"], "errorReason": "BlockedByClient"}
        headers = [
            {"name": name, "value": value}
            for name, value in found.headers.items()
            if name.lower() not in _DROPPED and "\n" not in value
        ]
        return "Fetch.fulfillRequest", {
            "requestId": paused["requestId"],
            "responseCode": found.status,
            "responseHeaders": headers,
            "body": base64.b64encode(found.body).decode(),
        }
