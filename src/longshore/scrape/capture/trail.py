"""The trail of an attempt: its latest exchanges, so that a failure can be shown and run again."""

from __future__ import annotations

from collections import deque

from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.page_store import PageKeeper

MOST_EXCHANGES = 50
MOST_BYTES = 8 * 1024 * 1024
"""The size of the bodies of one attempt. The oldest are dropped first: the latest explain a failure."""


class Trail:
    """The exchanges of one attempt. Every attempt has one; it refers to bodies that the handler holds anyway.

    `watch` is passed to `http.attempt` and may be called from any thread. `close` is called when the attempt is over.
    """

    __slots__ = ("_bytes", "_exchanges", "_pages", "dropped", "screenshot")

    def __init__(self, pages: PageKeeper | None = None) -> None:
        """Make a trail; with `pages`, every response is also stored in the page store."""
        self._exchanges: deque[Exchange] = deque()
        self._bytes = 0
        self._pages = pages
        self.dropped = 0
        """The number of early exchanges that were dropped for later ones."""
        self.screenshot = b""
        """A PNG of the browser's page at the time of the failure; set by the worker's kit if it has one."""

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The latest exchanges, in order."""
        return tuple(self._exchanges)

    def watch(self, exchange: Exchange) -> None:
        """Add an exchange."""
        if self._pages is not None:
            self._pages.add(exchange)
        self._exchanges.append(exchange)
        self._bytes += _size(exchange)
        while len(self._exchanges) > 1 and (len(self._exchanges) > MOST_EXCHANGES or self._bytes > MOST_BYTES):
            self._bytes -= _size(self._exchanges.popleft())
            self.dropped += 1

    def close(self) -> None:
        """Store the list of the attempt's pages."""
        if self._pages is not None:
            self._pages.close()


def _size(exchange: Exchange) -> int:
    return len(exchange.body) + len(exchange.request_body)
