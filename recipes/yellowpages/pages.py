"""Reads a page of results: both layouts of the site, its wrong encodings, and its block page."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from longshore import ProcessingError
from longshore.scrape.http.client import Response

if TYPE_CHECKING:
    from longshore.scrape.html.parse import Element

_PLACE = re.compile(r"(?P<city>.+), (?P<state>[A-Z]{2})(?: (?P<zip>\S+))?")
_RATING = re.compile(r"(?P<rating>\S+) of 5(?: \((?P<reviews>\S+) reviews?\))?")
_BLOCKED = ("#captcha", "form[action*=captcha]", ".block-page")


class BlockedError(ProcessingError):
    """The site answered with a block page instead of the results. Retryable."""


class CutOffError(ProcessingError):
    """The page ends in the middle. Retryable."""


@dataclass(frozen=True)
class ResultPage:
    """A page of results."""

    listings: list[dict[str, Any]]
    """The fields of each, as `Listing` has them."""
    next_url: str | None


def decoded(url: str, body: bytes) -> Response:
    """Return the page with its text as it was meant: the site's word about its encodings cannot be trusted.

    Text that is valid UTF-8 hardly ever is anything else; the rest is windows-1252.
    """
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        # Five bytes mean nothing in windows-1252.
        body = body.decode("cp1252", errors="replace").encode()
    return Response(url=url, headers={"Content-Type": "text/html; charset=utf-8"}, body=body)


def read_results(page: Response) -> ResultPage:
    """Return the results of a page. Raise `BlockedError`, `CutOffError`, or `ProcessingError` for an unknown layout."""
    if any(page.css(selector) for selector in _BLOCKED):
        raise BlockedError(f"{page.url} is a block page, with status 200")
    if page.css_first("footer") is None:
        raise CutOffError(f"{page.url} ends in the middle")
    if page.css_first("main.cards") is not None:
        listings = [_of_card(each) for each in page.css("article.card")]
    elif page.css_first("#results") is not None:
        listings = [_of_row(each) for each in page.css("#results div.result")]
    else:
        raise ProcessingError(f"{page.url} has no layout that is known", retryable=False)
    href = page.attribute_of("a[rel=next], link[rel=next]", "href", "")
    return ResultPage(listings, page.absolute(href) if href else None)


def _of_row(row: Element) -> dict[str, Any]:
    """Read the usual layout: a row of `div`s with classes."""
    place = _place(_text(row, ".locality"))
    hidden = row.css_first(".phone")
    # A script of the page turns the number round; without scripts it is only in the attribute.
    phone = None if hidden is None else (hidden.attributes.get("data-p") or "")[::-1]
    stars = row.css_first(".stars")
    return {
        "listing_id": (row.attributes.get("id") or "").removeprefix("lid-"),
        "name": _text(row, ".business-name"),
        "phone": _phone(phone),
        "street": _text(row, ".street-address"),
        **place,
        "website": _website(_attribute(row, "a.website", "href")),
        "rating": _rating(None if stars is None else stars.attributes.get("data-rating")),
        "reviews": _whole((_text(row, ".stars .count") or "").strip("()")),
        "categories": [_spaced(each.text()) for each in row.css(".categories a")],
        "closed": row.css_first(".closed") is not None,
        "sponsored": row.css_first(".ad-pill") is not None,
    }


def _of_card(card: Element) -> dict[str, Any]:
    """Read the other layout: a card with a list of terms and values."""
    terms = [_spaced(each.text()).lower() for each in card.css("dt")]
    values = dict(zip(terms, card.css("dd"), strict=False))
    address = values.get("address")
    lines = [] if address is None else [_spaced(each) for each in address.text(separator="\n").split("\n")]
    lines = [line for line in lines if line]
    place = lines.pop() if lines and _PLACE.fullmatch(lines[-1]) else None
    # Words without a house number are no street: "Serving the whole county".
    street = " ".join(line for line in lines if re.search(r"\d", line))
    rating = _RATING.fullmatch(_value(values, "rating"))
    website = values.get("website")
    return {
        "listing_id": card.attributes.get("data-id") or "",
        "name": _text(card, "h2"),
        "phone": _phone(_value(values, "phone")),
        "street": street or None,
        **_place(place),
        "website": None if website is None else _website(_attribute(website, "a", "href")),
        "rating": _rating(rating["rating"] if rating else None),
        "reviews": _whole((rating["reviews"] or "") if rating else ""),
        "categories": [each for each in map(_spaced, _value(values, "categories").split(";")) if each],
        "closed": _text(card, ".status") == "Permanently closed",
        "sponsored": _text(card, ".label") == "Sponsored",
    }


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _text(element: Element, selector: str) -> str | None:
    found = element.css_first(selector)
    return None if found is None else _spaced(found.text()) or None


def _value(values: dict[str, Element], term: str) -> str:
    return _spaced(values[term].text()) if term in values else ""


def _attribute(element: Element, selector: str, name: str) -> str | None:
    found = element.css_first(selector)
    return None if found is None else found.attributes.get(name)


def _place(text: str | None) -> dict[str, str | None]:
    found = _PLACE.fullmatch(text or "")
    if found is None:
        return {"city": None, "state": None, "zip_code": None}
    zip_code = found["zip"] if found["zip"] and re.fullmatch(r"\d{5}(-\d{4})?", found["zip"]) else None
    return {"city": found["city"], "state": found["state"], "zip_code": zip_code}


def _phone(text: str | None) -> str | None:
    digits = re.sub(r"\D", "", text or "").removeprefix("1")
    return f"+1{digits}" if len(digits) == 10 else None


def _website(href: str | None) -> str | None:
    parts = urlsplit(href or "")
    return href if parts.scheme in ("http", "https") and "." in parts.netloc else None


def _rating(text: str | None) -> float | None:
    try:
        rating = float(text or "")
    except ValueError:
        return None
    return rating if 0 <= rating <= 5 else None


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() else None
