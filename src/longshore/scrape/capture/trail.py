"""The trail of an attempt: what it asked for and was answered, so that a failure can be shown and run again."""

from __future__ import annotations

from collections import deque

from longshore.scrape.capture.exchange import Exchange
from longshore.scrape.capture.page_store import PageKeeper

MOST_EXCHANGES = 50
MOST_BYTES = 8 * 1024 * 1024
"""Of bodies, for one attempt: the latest are what a failure is about."""


class Trail:
    """What one attempt leaves behind. One is made for every attempt; it holds what the handler holds anyway.

    `watch` is given to `http.attempt`; from any thread. `close` is called when the attempt is over, however it ended.
    """

    __slots__ = ("_bytes", "_exchanges", "_pages", "dropped", "screenshot")

    def __init__(self, pages: PageKeeper | None = None) -> None:
        """With `pages`, every answer is kept in the page store too."""
        self._exchanges: deque[Exchange] = deque()
        self._bytes = 0
        self._pages = pages
        self.dropped = 0
        """How many of the first exchanges had to make room for later ones."""
        self.screenshot = b""
        """A PNG of the page in the browser, for whoever has one at the time of the failure to set."""

    @property
    def exchanges(self) -> tuple[Exchange, ...]:
        """The latest exchanges, in order."""
        return tuple(self._exchanges)

    def watch(self, exchange: Exchange) -> None:
        """An exchange took place."""
        if self._pages is not None:
            self._pages.add(exchange)
        self._exchanges.append(exchange)
        self._bytes += _size(exchange)
        while len(self._exchanges) > 1 and (len(self._exchanges) > MOST_EXCHANGES or self._bytes > MOST_BYTES):
            self._bytes -= _size(self._exchanges.popleft())
            self.dropped += 1

    def close(self) -> None:
        """The attempt is over: what pages it had is written down."""
        if self._pages is not None:
            self._pages.close()


def _size(exchange: Exchange) -> int:
    return len(exchange.body) + len(exchange.request_body)
