"""Reads a page of the Russian register: cells over several rows, or tables within a table."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from longshore.scrape.html.forms import Form
from longshore.scrape.http.client import Response
from registers.readers.values import (
    Fields,
    SessionExpiredError,
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

_ENCODINGS = ("utf-8", "cp1251", "koi8_r")
_MEDICINE = ("medicine", "name", "inn", "holder")
_LABELS = ("Рег. номер", "Торговое наименование", "МНН", "Держатель")


def read_form(page: Response, number: str) -> Form:
    """Return the form that asks for a page of results, with its token."""
    return decoded(page, _ENCODINGS, 'id="search"').form("#search", {"page": number})


def read_results(page: Response) -> tuple[list[Fields], int]:
    """Return the packs on a page of results, and the number of pages. Raise `SessionExpiredError` for an old form."""
    if "Сеанс истёк".encode("cp1251") in page.body:
        raise SessionExpiredError(f"{page.url}: the session has expired")
    page = decoded(page, _ENCODINGS, "Страница")
    pages = re.search(r"из (\d+)", page.text_of("p.pages"))
    if (table := page.css_first("table.prices")) is not None:
        found = _of_rows(table)
    elif page.css_first("table.cards") is not None:
        found = [pack for inner in page.css("table.cards table") for pack in _of_card(inner)]
    else:
        raise unknown_layout(page.url)
    return found, int(pages[1]) if pages else 1


def _of_rows(table: Element) -> list[Fields]:
    found, medicine = [], dict[str, str | None]()
    for row in table.css("tr"):
        cells = [spaced(cell.text()) for cell in row.css("td")]
        if len(cells) == 8:
            # The first row of a medicine has the cells that are over all of its rows.
            medicine = _medicine(cells)
            cells = cells[4:]
        if len(cells) == 4:
            barcode, form, amount, decided = cells
            found.append(_pack(medicine, barcode, form, amount, decided))
    return found


def _of_card(inner: Element) -> list[Fields]:
    """Read the packs of a medicine, in the inner table, and the medicine, in the cell before it."""
    cell = inner.parent
    row = None if cell is None else cell.parent
    about = None if row is None else row.css_first("td")
    text = "" if about is None else about.text(separator="\n")
    medicine = _medicine([_after(label, text) for label in _LABELS])
    found = []
    for pack in inner.css("tr"):
        form, priced, barcode = (spaced(each.text()) for each in pack.css("td"))
        found.append(_pack(medicine, barcode, form, text_of(pack, "b"), priced.rpartition("от ")[2]))
    return found


def _after(label: str, text: str) -> str:
    lines = [spaced(line) for line in text.split("\n")]
    at = lines.index(f"{label}:")
    # An empty value has no line: the next one is a label, or there is none.
    following = lines[at + 1] if at + 1 < len(lines) else ""
    return "" if following.rstrip(":") in _LABELS else following


def _medicine(cells: list[str]) -> dict[str, str | None]:
    return {name: known(value, "~") for name, value in zip(_MEDICINE, cells, strict=False)}


def _pack(medicine: dict[str, str | None], barcode: str, form: str, amount: str, decided: str) -> Fields:
    return {
        **medicine,
        "barcode": barcode,
        "form": known(form),
        # Most prices have a comma, some a point.
        "price": price(amount, comma=True) or price(amount),
        "decided": written_day(decided),
    }
