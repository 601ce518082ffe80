"""Reads the Argentine register: the laboratories, the products of one, and the presentations of a product."""

from __future__ import annotations

import re

from longshore.scrape.http.client import Response
from registers.readers.values import Fields, decoded, known, price, spaced, text_of, unknown_layout, written_day

_ENCODINGS = ("utf-8", "cp1252")


def read_laboratories(page: Response) -> list[str]:
    """Return the URLs of the laboratories."""
    page = decoded(page, _ENCODINGS, "laboratorios")
    return page.links("ul.laboratorios a")


def read_laboratory(page: Response) -> list[str]:
    """Return the URLs of the products of a laboratory, each once."""
    page = decoded(page, _ENCODINGS, "<body>")
    return page.links("a.producto")


def read_product(page: Response) -> list[Fields]:
    """Return the presentations of a product."""
    page = decoded(page, _ENCODINGS, "<body>")
    if (table := page.css_first("table.precios")) is not None:
        common = {
            "product": int(table.attributes.get("data-producto") or ""),
            "name": page.text_of("h1"),
            "laboratory": page.text_of("h2"),
            "drug": known(page.text_of("p.droga")),
        }
        cells = [[spaced(cell.text()) for cell in row.css("td")] for row in table.css("tr") if row.css_first("td")]
        rows = [(presentation, amount, start) for presentation, amount, start in cells]
    elif (article := page.css_first("article[id]")) is not None:
        name, _, laboratory = text_of(article, "header").partition(" — ")
        common = {
            "product": int((article.attributes.get("id") or "").removeprefix("p")),
            "name": name,
            "laboratory": laboratory,
            "drug": known(text_of(article, "span").removeprefix("Droga: ")),
        }
        rows = []
        for block in article.css(".presentacion"):
            start = re.search(r"desde (\S+):", block.text())
            rows.append((block.attributes.get("title") or "", text_of(block, "strong"), start[1] if start else ""))
    elif "Sin presentaciones" in page.text:
        return []
    else:
        raise unknown_layout(page.url)
    return [
        {
            **common,
            "presentation": presentation,
            "price": price(amount, comma=True),
            "valid_from": written_day(start),
        }
        for presentation, amount, start in rows
    ]
