"""HTML as a tree of elements, and the bounds that keep a hostile page from taking minutes to parse."""

from __future__ import annotations

import re
from collections import Counter

from selectolax.lexbor import LexborHTMLParser, LexborNode, SelectolaxError

from longshore.errors import ProcessingError

Element = LexborNode
"""An element of a page: `element.text(strip=True)`, `element.attributes["href"]`, `element.css("li")`."""

# The parser walks up the open elements for many tags, so its time is the depth of the page times its tags.
_FEW_TAGS = 10_000
"""Up to this number of tags, even the worst page takes a fraction of a second and is not looked at."""
_MOST_STEPS = 600_000_000
"""About a second. A page of a million tags may be 600 elements deep, and browsers end at 512."""
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*)")
# Tags that may be left open without a new level: they are closed by the next one of their kind, or have no content.
_SHALLOW = frozenset(
    re.findall(
        r"\w+",
        """area base br col embed hr img input link meta param source track wbr
        body colgroup dd dt head html li optgroup option p rp rt tbody td tfoot th thead tr""",
    )
)
# Within drawings and formulas, these tags nest like any other.
_FOREIGN = re.compile(r"<(?:svg|math)\b", re.IGNORECASE)
# Attributes of one tag are compared with each other. A tag without `>` for this long has thousands, or a picture.
_LONG_TAG = re.compile(r"<[a-zA-Z][^>]{50000}[^>]*")
_MOST_ATTRIBUTES = 10_000


def parse(html: str) -> LexborHTMLParser:
    """Return the tree of a page. Raise `ProcessingError` if it is built to take very long."""
    if html.count("<") > _FEW_TAGS:
        _check_depth(html)
    for tag in _LONG_TAG.finditer(html):
        if len(tag.group().split(None, _MOST_ATTRIBUTES)) > _MOST_ATTRIBUTES:
            raise ProcessingError(f"The page has a tag of more than {_MOST_ATTRIBUTES:,} attributes.", retryable=False)
    return LexborHTMLParser(html)


def select(tree: LexborHTMLParser, selector: str) -> list[Element]:
    """Return all elements that match a CSS selector. Raise `ProcessingError` if it is no selector."""
    try:
        return tree.css(selector)
    except SelectolaxError as error:
        raise ProcessingError(f"{selector!r} is no CSS selector that we know.", retryable=False) from error


def text_in(element: Element) -> str:
    """Return the visible text of an element, with single spaces between its words."""
    return " ".join(element.text(separator=" ").split())


def _check_depth(html: str) -> None:
    shallow = frozenset[str]() if _FOREIGN.search(html) else _SHALLOW
    still_open = Counter[str]()
    depth = deepest = tags = 0
    for closing, written in _TAG.findall(html):
        tags += 1
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
    if deepest * tags > _MOST_STEPS:
        raise ProcessingError(
            f"The page cannot be read: it has {tags:,} tags, nested up to {deepest:,} deep, and would take too long.",
            retryable=False,
        )
