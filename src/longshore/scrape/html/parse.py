"""HTML as a tree of elements, and the bounds that keep a hostile page from taking minutes to parse."""

from __future__ import annotations

import re
from collections import Counter

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from longshore.errors import ProcessingError
from longshore.scrape.html.nesting import FORMATTING, nesting

Element = LexborNode
"""An element of a page: `element.text(strip=True)`, `element.attributes["href"]`, `element.css("li")`."""

# The parser walks up the open elements for many tags, so its time is the depth of the page times its tags.
_FEW_TAGS = 1_000
"""Up to this number of tags, even the worst page takes a fraction of a second and 100 MB, and is not looked at."""
_SOME_TAGS = 10_000
"""Up to this number of tags, the depth of a page is not looked at."""
_MANY_TAGS = 100_000
"""Up to this number of tags, a page that hides its depth takes a few seconds at the most."""
MOST_STEPS = 600_000_000
"""About a second. A page of a million tags may be 600 elements deep, and browsers end at 512."""
MOST_ELEMENTS = 4_000_000
"""An element takes about 330 bytes."""
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
# Tags that may be left open without a new level: they are closed by the next one of their kind, or have no content.
_SHALLOW = frozenset(
    re.findall(
        r"\w+",
        """area base br col embed hr img input link meta param source track wbr
        body colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr""",
    )
)
_FORMATTING_TAG = re.compile(rf"<(?:{'|'.join(sorted(FORMATTING, reverse=True))})(?=[\s/>])", re.IGNORECASE)
# Within drawings and formulas, these tags nest like any other.
_FOREIGN = re.compile(r"<(?:svg|math)\b", re.IGNORECASE)
# Attributes of one tag are compared with each other. A tag without `>` for this long has thousands, or a picture.
_LONG_TAG = re.compile(r"<[a-zA-Z][^>]{50000}[^>]*")
_MOST_ATTRIBUTES = 10_000


def parse(html: str) -> LexborHTMLParser:
    """Return the tree of a page. Raise `ProcessingError` if it is built to take very long, or very much memory."""
    tags = html.count("<")
    if tags > _FEW_TAGS:
        _check_size(html, tags)
    for tag in _LONG_TAG.finditer(html):
        if len(tag.group().split(None, _MOST_ATTRIBUTES)) > _MOST_ATTRIBUTES:
            raise ProcessingError(f"The page has a tag of more than {_MOST_ATTRIBUTES:,} attributes.", retryable=False)
    try:
        return LexborHTMLParser(html)
    except SelectolaxError as error:
        raise ProcessingError("The page cannot be read: there is no memory for its elements.") from error


def text_in(element: Element) -> str:
    """Return the visible text of an element, with single spaces between its words."""
    return " ".join(element.text(separator=" ").split())


def _check_size(html: str, tags: int) -> None:
    if tags > MOST_ELEMENTS:
        raise _too_large(f"it has {tags:,} tags")
    formatted = len(_FORMATTING_TAG.findall(html))
    simple = tags <= _MANY_TAGS and tags * formatted <= MOST_ELEMENTS
    if simple and (tags <= _SOME_TAGS or _deepest(html) * tags <= MOST_STEPS):
        return
    bounds = nesting(html, MOST_STEPS / tags + 1)
    if bounds.deepest * tags > MOST_STEPS:
        raise _too_large(f"it has {tags:,} tags, nested {bounds.deepest:,} deep and deeper")
    if tags + bounds.repeated > MOST_ELEMENTS:
        raise _too_large(f"it leaves tags open that would be repeated {bounds.repeated:,} times")


def _deepest(html: str) -> int:
    """Return how deep the tags seem to be nested, at the most: a first look, which takes a tenth of the time."""
    shallow = frozenset[str]() if _FOREIGN.search(html) else _SHALLOW
    still_open = Counter[str]()
    depth = deepest = 0
    for closing, written in _TAG.findall(html):
        name = written.lower()
        if name in shallow:
            continue
        if not closing:
            still_open[name] += 1
            depth += 1
            deepest = max(deepest, depth)
        elif still_open[name]:
            still_open[name] -= 1
            depth -= 1
    return deepest


def _too_large(why: str) -> ProcessingError:
    return ProcessingError(f"The page cannot be read: {why}, and would take too long.", retryable=False)
