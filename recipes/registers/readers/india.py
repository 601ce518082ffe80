"""Reads a product of the Indian register: a table of packs, or a section for each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from longshore.scrape.http.client import Response
from registers.readers.values import (
    Fields,
    attribute_of,
    decoded,
    known,
    price,
    spaced,
    text_of,
    unknown_layout,
    written_day,
)

if TYPE_CHECKING:
    from longshore.scrape.html.parse import Element


def read_product(page: Response) -> tuple[list[Fields], str | None]:
    """Return the packs on a page, and the URL of the next page."""
    page = decoded(page, ("utf-8",), "<body>")
    code = page.url.partition("/product/")[2].partition("?")[0]
    if (table := page.css_first("#packs")) is not None:
        composition = next((text_of(each, "b") for each in page.css("p") if "Composition" in each.text()), "")
        common = {
            "brand": page.text_of("h1"),
            "composition": known(composition),
            "company": known(page.text_of(".company", "")),
        }
        packs = _of_table(table)
    elif (head := page.css_first("header[data-company]")) is not None:
        common = {
            "brand": text_of(head, "h2"),
            "composition": known(text_of(head, "em"), "—"),
            "company": known(head.attributes.get("data-company") or ""),
        }
        packs = [_of_section(each) for each in page.css("section[data-pack]")]
    else:
        raise unknown_layout(page.url)
    href = page.attribute_of("a[rel=next]", "href", "")
    return [{"product": code, **common, **pack} for pack in packs], page.absolute(href) if href else None


def _of_table(table: Element) -> list[Fields]:
    names = [spaced(each.text()) for each in table.css("th")]
    rows = [dict(zip(names, (spaced(cell.text()) for cell in row.css("td")), strict=False)) for row in table.css("tr")]
    return [
        {
            "pack": row["Pack"],
            "size": known(row["Size"]),
            "mrp": price(row["MRP"]),
            "ceiling": price(row["Ceiling price"]),
            "updated": written_day(row["Updated on"]),
        }
        for row in rows
        if row
    ]


def _of_section(section: Element) -> Fields:
    return {
        "pack": section.attributes.get("data-pack"),
        "size": known(text_of(section, "h3")),
        "mrp": price(text_of(section, ".mrp")),
        "ceiling": price(text_of(section, ".ceiling")),
        "updated": known(attribute_of(section, "time", "datetime")),
    }
