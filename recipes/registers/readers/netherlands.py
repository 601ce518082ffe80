"""Reads a pack of the Dutch register: a list of terms, or items for machines."""

from __future__ import annotations

from longshore.scrape.http.client import Response
from registers.readers.values import Fields, decoded, known, price, spaced, unknown_layout


def read_pack(page: Response) -> Fields:
    """Return the fields of a pack."""
    page = decoded(page, ("utf-8",), "<body>")
    if page.css_first("dl") is not None:
        return _of_terms(page)
    if page.css_first("[itemscope]") is not None:
        return _of_items(page)
    raise unknown_layout(page.url)


def _of_terms(page: Response) -> Fields:
    terms = [spaced(each.text()).rstrip(":") for each in page.css("dt")]
    values = dict(zip(terms, (spaced(each.text()) for each in page.css("dd")), strict=True))
    return {
        "zi_number": values["ZI-nummer"],
        "name": page.text_of("h1"),
        "atc": known(values["ATC-code"], "onbekend"),
        "form": known(values["Vorm"]),
        "quantity": price(values["Hoeveelheid"], comma=True),
        "price": price(values["Prijs"], comma=True),
        "own_payment": price(values["Eigen betaling"], comma=True),
    }


def _of_items(page: Response) -> Fields:
    items = {
        each.attributes.get("itemprop"): each.attributes.get("content") or "" for each in page.css("meta[itemprop]")
    }
    return {
        "zi_number": items["productID"].removeprefix("zi:"),
        "name": items["name"],
        "atc": known(items.get("code", "")),
        "form": known(items.get("drugForm", "")),
        "quantity": price(items.get("quantity", "")),
        "price": price(items.get("price", "")),
        "own_payment": price(items.get("ownPayment", "")),
    }
