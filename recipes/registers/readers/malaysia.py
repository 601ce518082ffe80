"""Reads a product of the Malaysian register: data of a script, or a list."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec

from longshore.scrape.http.client import Response
from registers.readers.values import Fields, decoded, known, price, spaced, unknown_layout

if TYPE_CHECKING:
    from longshore.scrape.html.parse import Element


def read_product(page: Response) -> list[Fields]:
    """Return the packs of a product."""
    page = decoded(page, ("utf-8-sig",), "<body>")
    if (script := page.css_first("script#register")) is not None:
        return _of_data(msgspec.json.decode(script.text()))
    if page.css_first("ul.packs") is not None:
        return _of_list(page)
    if page.css_first("p.none") is not None:
        return []
    raise unknown_layout(page.url)


def _of_data(data: Any) -> list[Fields]:
    common = {
        "registration": data["registration"],
        "name": data["product"]["name"],
        "holder": known(data["holder"] or ""),
        "prescription": data["product"]["poison"],
    }
    prices = ("wholesale", "retail")
    return [
        {**common, "pack": pack["pack"], **{name: price(str(pack.get(name, ""))) for name in prices}}
        for pack in data["packs"]
    ]


def _of_list(page: Response) -> list[Fields]:
    terms: list[Element] = page.css("dl dt")
    values = dict(zip((spaced(each.text()) for each in terms), page.css("dl dd"), strict=True))
    common = {
        "registration": spaced(values["Registration"].text()),
        "name": spaced(values["Product"].text()),
        "holder": known(spaced(values["Holder"].text()), "-"),
        "prescription": "on prescription" in values["Class"].text(),
    }
    found = []
    for item in page.css("ul.packs li"):
        pack, retail, wholesale = item.text().split("|")
        found.append(
            {
                **common,
                "pack": spaced(pack),
                "wholesale": price(wholesale.partition(":")[2]),
                "retail": price(retail.partition(":")[2]),
            }
        )
    return found
