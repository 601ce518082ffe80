"""The links of a page: absolute, each page once, and only those that a crawl may follow."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser

from longshore.scrape.html.parse import Element
from longshore.scrape.html.select import outermost
from longshore.url import canonical_url, clean_url, host_of, requested_url

Patterns = str | re.Pattern[str] | Sequence[str | re.Pattern[str]]
"""One regular expression, or several; a URL matches if one of them is found anywhere in it."""

# The endings of files that are no pages: pictures, sound, films, archives, programs, fonts, styles, office documents.
_FILES = frozenset(
    re.findall(
        r"\w+",
        """7z aac ai apk avi avif bin bmp bz2 css csv dmg doc docx eot eps exe flac flv gif gz ico iso jar jpeg jpg js
        m4a m4v mjs mkv mov mp3 mp4 mpeg mpg msi odp ods odt ogg ogv otf pdf png ppt pptx ps psd rar rpm rtf svg tar tgz
        tif tiff ttf wav weba webm webp wma wmv woff woff2 xls xlsx xz zip""",
    )
)


def base_of(tree: LexborHTMLParser, url: str) -> str:
    """Return the URL that links of the page are relative to: that of its `<base>`, else its own."""
    base = tree.css_first("base[href]")
    return url if base is None else absolute(url, base.attributes.get("href")) or url


def absolute(base: str, href: str | None) -> str | None:
    """Return the absolute URL of a link; None if it leads to no page: `mailto:`, `javascript:`, a broken URL."""
    if href is None:
        return None
    try:
        given = clean_url(href)
        url = urljoin(base, given)
        page, mark, fragment = given.partition("#")
        if page and page.find("?") == len(page) - 1:
            # `urljoin` drops an empty query, or takes that of the base instead.
            url = f"{urljoin(base, page).partition('?')[0]}?{mark}{fragment}"
        parts = urlsplit(url)
    except ValueError:
        return None
    return url if parts.scheme in ("http", "https") and parts.hostname else None


def hrefs(elements: Iterable[Element]) -> list[Element]:
    """Return the links among these elements, and those inside the elements that are no links themselves."""
    given = list(elements)
    # Elements inside others would yield the same links again.
    others = {each.mem_id for each in outermost(each for each in given if each.attributes.get("href") is None)}
    found: list[Element] = []
    for element in given:
        if element.attributes.get("href") is not None:
            found.append(element)
        elif element.mem_id in others:
            found += element.css("a[href], area[href]")
    return found


def may_follow(element: Element) -> bool:
    """Return whether the page does not ask robots to pass over this link (`rel=nofollow`)."""
    return "nofollow" not in (element.attributes.get("rel") or "").lower().split()


def forbids_following(tree: LexborHTMLParser) -> bool:
    """Return whether the page asks robots to follow none of its links (`<meta name=robots content=nofollow>`)."""
    for meta in tree.css("meta[name][content]"):
        if (meta.attributes.get("name") or "").lower() == "robots":
            words = (meta.attributes.get("content") or "").lower().replace(",", " ").split()
            if "nofollow" in words or "none" in words:
                return True
    return False


class LinkFilter:
    """The choice of links by host, by pattern and by the ending of the path."""

    def __init__(
        self, page_url: str, *, same_host: bool, allow: Patterns = (), deny: Patterns = (), files: bool = False
    ) -> None:
        self._host = host_of(page_url) if same_host else None
        self._allow = _compiled(allow)
        self._deny = _compiled(deny)
        self._files = files

    def chosen(self, urls: Iterable[str | None]) -> list[str]:
        """Return the chosen URLs in their first order: each page once, by its first URL."""
        pages: dict[str, str] = {}
        for url in urls:
            if url is not None:
                pages.setdefault(canonical_url(url), requested_url(url))
        return [url for url in pages.values() if self._fits(url)]

    def _fits(self, url: str) -> bool:
        if self._host is not None and host_of(url) != self._host:
            return False
        if not self._files and _is_file(url):
            return False
        if self._allow and not any(pattern.search(url) for pattern in self._allow):
            return False
        return not any(pattern.search(url) for pattern in self._deny)


def _is_file(url: str) -> bool:
    name = urlsplit(url).path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() in _FILES if "." in name else False


def _compiled(patterns: Patterns) -> list[re.Pattern[str]]:
    several = [patterns] if isinstance(patterns, str | re.Pattern) else patterns
    return [re.compile(pattern) for pattern in several]
