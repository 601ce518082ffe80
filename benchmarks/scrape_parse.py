"""What is taken from a page, with selectolax: the same for every contestant that parses with it."""

from __future__ import annotations

from typing import Any

from selectolax.lexbor import LexborHTMLParser


def records(html: bytes) -> list[dict[str, Any]]:
    """The records of a page."""
    found = []
    for item in LexborHTMLParser(html).css("article.item"):
        link, price, text = item.css_first("h2.title a"), item.css_first("p.price"), item.css_first("p.text")
        assert link and price and text, "the page is not the page"
        found.append(
            {
                "id": item.id,
                "url": link.attributes["href"],
                "title": link.text(),
                "price": price.text(),
                "text": text.text(),
                "tags": [tag.text() for tag in item.css("ul.tags li")],
            }
        )
    return found
