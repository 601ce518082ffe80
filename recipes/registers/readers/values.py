"""Text, prices and dates as registers write them. What is missing or malformed is None."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any

from longshore import ProcessingError
from longshore.scrape.http.client import Response

if TYPE_CHECKING:
    from longshore.scrape.html.parse import Element

Fields = dict[str, Any]
"""The fields of a record, as its model in `registers.records` has them."""


class CutOffError(ProcessingError):
    """The page ends in the middle. Retryable."""


class BlockedError(ProcessingError):
    """A browser was sent a block page. Retryable. (`kit.http` recognises block pages by itself.)"""


class SessionExpiredError(ProcessingError):
    """The register has forgotten the form that was sent. Retryable."""


def unknown_layout(url: str) -> ProcessingError:
    """Return the error for a page that no reader knows: asking again does not help."""
    return ProcessingError(f"{url} has no layout that is known", retryable=False)


def decoded(page: Response, encodings: Sequence[str], label: str) -> Response:
    """Return the page with its text as it was meant: in the first encoding in which `label` can be read.

    Registers name wrong encodings, but the labels of their pages are known.
    Raise `CutOffError` if the page has no end, and `ProcessingError` if it has no such label.
    """
    if b"captcha-form" in page.body:
        raise BlockedError(f"{page.url} is a block page")
    if b"</html>" not in page.body[-200:].lower():
        raise CutOffError(f"{page.url} ends in the middle")
    for encoding in encodings:
        try:
            text = page.body.decode(encoding)
        except UnicodeDecodeError:
            continue
        if label in text:
            headers = {"Content-Type": "text/html; charset=utf-8"}
            return Response(url=page.url, status=page.status, headers=headers, body=text.encode())
    raise unknown_layout(page.url)


def spaced(text: str) -> str:
    """Return the text with single spaces between its words."""
    return " ".join(text.split())


def text_of(element: Element, selector: str) -> str:
    """Return the text of the first element that matches; empty if there is none."""
    found = element.css_first(selector)
    return "" if found is None else spaced(found.text())


def attribute_of(element: Element, selector: str, name: str) -> str:
    """Return an attribute of the first element that matches; empty if there is none."""
    found = element.css_first(selector)
    return "" if found is None else found.attributes.get(name) or ""


def known(text: str, *nothing: str) -> str | None:
    """Return the text; None if it is empty, or one of the words for nothing."""
    return None if text in ("", *nothing) else text


_POINT = re.compile(r"\d{1,3}(?:,\d{2,3})*(?:\.\d+)?|\d+(?:\.\d+)?")
_COMMA = re.compile(r"\d{1,3}(?:[. \N{NO-BREAK SPACE}]\d{3})*(?:,\d+)?|\d+(?:,\d+)?")
_UNITS = re.compile(r"₹|Rs\.|/-|RM|€|EUR|stuks|NT\$|元|руб\.|AR\$|\$")


def price(text: str, *, comma: bool = False) -> float | None:
    """Return a price without its currency: `Rs. 1,23,456.50`, or with a decimal comma `€ 1.234,56` and `1 234,56 $`."""
    bare = _UNITS.sub("", text).strip()
    if not (_COMMA if comma else _POINT).fullmatch(bare):
        return None
    if comma:
        bare = re.sub(r"[. \N{NO-BREAK SPACE}]", "", bare).replace(",", ".")
    return float(bare.replace(",", ""))


def day(year: str | int, month: str | int, number: str | int) -> str | None:
    """Return a date as 2024-05-31; None if there is no such day."""
    try:
        return date(int(year), int(month), int(number)).isoformat()
    except ValueError:
        return None


def written_day(text: str) -> str | None:
    """Return a date that is written with the day first: 31.05.2024, 31-05-2024, 31/05/24."""
    found = re.fullmatch(r"(\d\d)[./-](\d\d)[./-](\d{4}|\d\d)", text.strip())
    if found is None:
        return None
    year = found[3] if len(found[3]) == 4 else f"20{found[3]}"
    return day(year, found[2], found[1])
