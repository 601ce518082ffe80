"""Tell block pages from pages. One detector serves all fetches of a client."""

from __future__ import annotations

import statistics
from collections import OrderedDict, deque
from collections.abc import Sequence

import msgspec

from longshore.errors import ProcessingError
from longshore.scrape.block_pages.known import known_block_page
from longshore.scrape.block_pages.rule import BlockPage
from longshore.scrape.http.response import Response
from longshore.url import canonical_url, host_of

_SIZES_KEPT = 50
_FEWEST_SIZES = 10
"""Before this number of pages of a host nothing is known of their usual size."""
_HOSTS_KEPT = 1_000
_LOOKED_AT = 256 * 1024
"""Bytes at the beginning of a page in which text, title and elements are looked for: the event loop waits for it."""


class BlockDetector:
    """Judges responses by the known block pages, and by those that the user has declared."""

    def __init__(self, rules: Sequence[BlockPage] = (), *, known: bool = True) -> None:
        """`rules` are for all pages; without `known`, only they and those of a handler count."""
        self._rules = tuple(rules)
        self._known = known
        self._sizes: OrderedDict[str, deque[int]] = OrderedDict()

    def with_rules(self, rules: Sequence[BlockPage]) -> BlockDetector:
        """Return a detector with further rules, which shares what this one knows of usual sizes."""
        if not rules:
            return self
        more = BlockDetector((*self._rules, *rules), known=self._known)
        more._sizes = self._sizes
        return more

    def why(self, response: Response, asked: str) -> str:
        """Return why the response to a request for the URL `asked` is a block page; empty if it is a page."""
        if response.status >= 300:
            return ""
        if self._known and _is_html(response):
            name = known_block_page(response.headers, response.body)
            if name:
                return name
        begin = response
        if len(response.body) > _LOOKED_AT:
            begin = msgspec.structs.replace(response, body=response.body[:_LOOKED_AT])
        for rule in self._rules:
            if self._matches(rule, response, begin, asked):
                return f"a page with {rule}"
        if any(rule.shorter_than_usual for rule in self._rules):
            self._sizes_of(response.url).append(len(response.body))
        return ""

    def _matches(self, rule: BlockPage, response: Response, begin: Response, asked: str) -> bool:
        # The cheapest signs first. `begin` is the beginning of a long response.
        size = len(response.body)
        return (
            (not rule.shorter_than or size < rule.shorter_than)
            and (not rule.shorter_than_usual or self._is_unusual(response.url, size * rule.shorter_than_usual))
            and (not rule.redirected_to or _was_redirected(rule.redirected_to, response.url, asked))
            and (not rule.text or rule.text.casefold() in begin.text.casefold())
            and _has_elements(rule, begin)
        )

    def _is_unusual(self, url: str, size: float) -> bool:
        sizes = self._sizes_of(url)
        return len(sizes) >= _FEWEST_SIZES and size <= statistics.median(sizes)

    def _sizes_of(self, url: str) -> deque[int]:
        host = host_of(url)
        if host not in self._sizes and len(self._sizes) >= _HOSTS_KEPT:
            self._sizes.popitem(last=False)
        sizes = self._sizes.setdefault(host, deque(maxlen=_SIZES_KEPT))
        self._sizes.move_to_end(host)
        return sizes


def _has_elements(rule: BlockPage, response: Response) -> bool:
    """Return whether the page has the title and the element of the rule. A page that is too deep to read has none."""
    if not rule.title and not rule.selector:
        return True
    try:
        return (not rule.title or rule.title.casefold() in _title(response).casefold()) and (
            not rule.selector or response.css_first(rule.selector) is not None
        )
    except ProcessingError:
        return False


def _is_html(response: Response) -> bool:
    media_type = response.headers.get("Content-Type", "text/html").partition(";")[0].strip().lower()
    return media_type in ("text/html", "application/xhtml+xml", "")


def _was_redirected(part: str, answered: str, asked: str) -> bool:
    return part in answered and canonical_url(answered) != canonical_url(asked)


def _title(response: Response) -> str:
    return response.text_of("title", "")
