"""The methods of a fetched page: elements, text, links, follow-on jobs, structured data and forms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING

from longshore.errors import ProcessingError
from longshore.job import NewJob, new_job
from longshore.stored import JsonObject
from longshore.url import mask_url

# The parser is imported on first use: most commands and many handlers read no HTML.
if TYPE_CHECKING:
    from selectolax.lexbor import LexborHTMLParser

    from longshore.scrape.html.forms import Form
    from longshore.scrape.html.links import Patterns
    from longshore.scrape.html.parse import Element


class HtmlPage:
    """The HTML of a page, parsed at the first call and then kept."""

    if TYPE_CHECKING:

        @property
        def url(self) -> str:
            """The URL that answered, after redirects."""

        @property
        def text(self) -> str:
            """The HTML."""

    @cached_property
    def _tree(self) -> LexborHTMLParser:
        from longshore.scrape.html.parse import parse

        return parse(self.text)

    @cached_property
    def _base(self) -> str:
        from longshore.scrape.html.links import base_of

        return base_of(self._tree, self.url)

    def css(self, selector: str) -> list[Element]:
        """Return all elements that match a CSS selector. Raise `ProcessingError` if it is no selector."""
        from longshore.scrape.html.select import select

        return select(self._tree, selector)

    def css_first(self, selector: str) -> Element | None:
        """Return the first element that matches a CSS selector; None if there is none."""
        found = self.css(selector)
        return found[0] if found else None

    def text_of(self, selector: str, default: str | None = None) -> str:
        """Return the text of the first element that matches, with single spaces between words.

        Without such an element, return `default`. If there is no default, raise `ProcessingError`, which names the
        selector and the page: the site may have a new layout.
        """
        from longshore.scrape.html.parse import text_in

        found = self.css_first(selector)
        if found is not None:
            return text_in(found)
        return self._missing(selector, default)

    def attribute_of(self, selector: str, name: str, default: str | None = None) -> str:
        """Return an attribute of the first element that matches and has it. Else as `text_of`."""
        for found in self.css(selector):
            value = found.attributes.get(name)
            if value is not None:
                return value
        return self._missing(f"{selector}[{name}]", default)

    def absolute(self, href: str) -> str:
        """Return the absolute URL of a link of this page."""
        from longshore.scrape.html.links import absolute

        url = absolute(self._base, href)
        if url is None:
            raise ProcessingError(f"{mask_url(href)} is a link to no web page.", retryable=False)
        return url

    def links(
        self,
        selector: str = "a[href], area[href]",
        *,
        same_host: bool = True,
        allow: Patterns = (),
        deny: Patterns = (),
        files: bool = False,
        nofollow: bool = False,
    ) -> list[str]:
        """Return the URLs that the page links to: absolute, without fragment and tracking parameters, in their order.

        Each page is named once, by its first URL: `?a=1&b=2` and `?b=2&a=1` are one page.

        Only links of elements that match the selector count, or of the links inside them. `same_host=False` adds links
        to other hosts. `allow` and `deny` are regular expressions for the URL, one or several. Links to pictures,
        archives and other files are left out unless `files` is set; links that the page asks robots not to follow,
        unless `nofollow` is set.
        """
        from longshore.scrape.html.links import LinkFilter, absolute, forbids_following, hrefs, may_follow

        if not nofollow and forbids_following(self._tree):
            return []
        elements = [element for element in hrefs(self.css(selector)) if nofollow or may_follow(element)]
        chosen = LinkFilter(self.url, same_host=same_host, allow=allow, deny=deny, files=files)
        return chosen.chosen(absolute(self._base, element.attributes.get("href")) for element in elements)

    def follow(
        self,
        links: str | Iterable[str] = "a[href], area[href]",
        kind: str = "",
        *,
        payload: JsonObject | None = None,
        same_host: bool = True,
        allow: Patterns = (),
        deny: Patterns = (),
        priority: int = 0,
        partition: str = "",
    ) -> list[NewJob]:
        """Return a follow-on job for each link, to be returned by the handler.

        `links` is a CSS selector, whose links are chosen as by `links`, or the URLs themselves, absolute or relative.
        The jobs are of this `kind`; without one, of the kind of the job at hand. `payload` has further fields.
        """
        if isinstance(links, str):
            urls = self.links(links, same_host=same_host, allow=allow, deny=deny)
        else:
            from longshore.scrape.html.links import LinkFilter

            chosen = LinkFilter(self.url, same_host=same_host, allow=allow, deny=deny, files=True)
            urls = chosen.chosen(self.absolute(link) for link in links)
        return [new_job(kind, {**(payload or {}), "url": url}, priority=priority, partition=partition) for url in urls]

    def json_ld(self, type_name: str | None = None) -> list[JsonObject]:
        """Return the objects of the page's JSON-LD; only those of a type, as in `json_ld("Product")`, if it is given.

        Objects in lists and in `@graph` are returned one by one. A script that is not JSON is passed over.
        """
        from longshore.scrape.html.structured import json_ld

        return json_ld(self._tree, type_name)

    def meta(self) -> dict[str, str]:
        """Return what the page says about itself: `title`, `lang`, `canonical`, and its `<meta>` tags by name."""
        from longshore.scrape.html.structured import meta

        return meta(self._tree, self._base)

    def form(self, selector: str = "form", values: Mapping[str, str | list[str]] | None = None) -> Form:
        """Return the first form that matches, with its fields as a browser would send them and these values filled in.

        Raise `ProcessingError` if there is no such form, or if it has no field of a given name.
        """
        from longshore.scrape.html.forms import form_of

        for found in self.css(selector):
            if found.tag == "form":
                return form_of(found, self._base, values or {})
        raise ProcessingError(f"No form matches {selector!r} on {mask_url(self.url)}.", retryable=False)

    def _missing(self, selector: str, default: str | None) -> str:
        if default is None:
            raise ProcessingError(f"Nothing matches {selector!r} on {mask_url(self.url)}.", retryable=False)
        return default
