"""Data that a page holds for machines: JSON-LD and `<meta>` tags."""

from __future__ import annotations

import json
from collections.abc import Iterator

from selectolax.lexbor import LexborHTMLParser

from longshore.scrape.html.links import absolute
from longshore.scrape.html.parse import text_in
from longshore.stored import Json, JsonObject

_DEEPEST = 50


def json_ld(tree: LexborHTMLParser, type_name: str | None = None) -> list[JsonObject]:
    """Return the objects of the page's JSON-LD, those in lists and `@graph` one by one; only of a type, if it is given.

    A script that is not JSON is passed over, because one broken widget must not hide the others.
    """
    found: list[JsonObject] = []
    for script in tree.css("script[type]"):
        if (script.attributes.get("type") or "").partition(";")[0].strip().lower() != "application/ld+json":
            continue
        text = script.text_content or script.text() or ""
        try:
            # Not strict: line ends within text are common, and every reader of JSON-LD takes them.
            value = json.loads(_unwrapped(text), strict=False)
        except (ValueError, RecursionError):
            continue
        found.extend(_objects(value))
    return [item for item in found if type_name is None or type_name in _types(item)]


def meta(tree: LexborHTMLParser, base: str) -> dict[str, str]:
    """Return what the page says about itself: its title, language and canonical URL, and its `<meta>` tags by name.

    Of tags with one name, the first counts. Names are in lower case: `description`, `og:title`, `twitter:card`.
    """
    found: dict[str, str] = {}
    for tag in tree.css("meta[content]"):
        attributes = tag.attributes
        name = attributes.get("name") or attributes.get("property") or attributes.get("itemprop")
        if name:
            found.setdefault(name.strip().lower(), (attributes.get("content") or "").strip())
    title = tree.css_first("title")
    if title is not None:
        found["title"] = text_in(title)
    link = next((link for link in tree.css("link[rel][href]") if _is_canonical(link.attributes.get("rel"))), None)
    canonical = None if link is None else absolute(base, link.attributes.get("href"))
    if canonical:
        found["canonical"] = canonical
    root = tree.css_first("html[lang]")
    if root is not None:
        found["lang"] = root.attributes.get("lang") or ""
    return found


def _unwrapped(text: str) -> str:
    """Return the text without the comment signs that old pages put around a script."""
    text = text.strip()
    for opening, closing in (("<!--", "-->"), ("//<![CDATA[", "//]]>"), ("<![CDATA[", "]]>")):
        if text.startswith(opening):
            text = text.removeprefix(opening).removesuffix(closing).strip()
    return text.rstrip(";")


def _is_canonical(rel: str | None) -> bool:
    return "canonical" in (rel or "").lower().split()


def _objects(value: Json, depth: int = 0) -> Iterator[JsonObject]:
    if depth > _DEEPEST:
        return
    if isinstance(value, list):
        for item in value:
            yield from _objects(item, depth + 1)
    elif isinstance(value, dict):
        graph = value.get("@graph")
        if isinstance(graph, list):
            yield from _objects(graph, depth + 1)
        else:
            yield value


def _types(item: JsonObject) -> list[Json]:
    """Return the types of an object, without the address of their vocabulary."""
    named = item.get("@type")
    types = named if isinstance(named, list) else [named]
    return [name.rpartition("/")[2].removeprefix("schema:") if isinstance(name, str) else name for name in types]
