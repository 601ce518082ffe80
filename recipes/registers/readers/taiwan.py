"""Reads a drug of the Taiwanese register, in the encoding in which its labels can be read."""

from __future__ import annotations

import re

from longshore.scrape.http.client import Response
from registers.readers.values import Fields, day, decoded, known, price, spaced, text_of, unknown_layout

_ENCODINGS = ("utf-8", "big5", "euc_jp")


def read_drug(page: Response) -> list[Fields]:
    """Return the prices of a drug over time."""
    page = decoded(page, _ENCODINGS, "藥品代碼")
    if (table := page.css_first("#drug")) is not None:
        rows = {text_of(row, "th"): text_of(row, "td") for row in table.css("tr") if row.css_first("td[colspan]")}
        cells = [[spaced(cell.text()) for cell in row.css("td")] for row in table.css("tr.period")]
        periods = [(amount, start, end) for amount, start, end in cells]
    elif (lines := page.css_first("div.drug")) is not None:
        pairs = (spaced(each.text()).partition("：") for each in lines.css("p"))
        rows = {name: value for name, _, value in pairs}
        periods = []
        for item in lines.css("li"):
            span, _, amount = spaced(item.text()).partition("：")
            start, _, end = span.partition("~")
            periods.append((amount, start, end))
    else:
        raise unknown_layout(page.url)
    common = {
        "code": rows["藥品代碼"],
        "name": rows["中文名稱"],
        "name_english": known(rows["英文名稱"], "無"),
        "maker": known(rows["製造廠"], "無"),
    }
    return [
        {**common, "price": price(amount), "valid_from": _date(start), "valid_to": _date(end)}
        for amount, start, end in periods
    ]


def _date(text: str) -> str | None:
    """Return a date in years of the Republic: 113/05/01 is 2024-05-01. 9991231 is an open end."""
    found = re.fullmatch(r"(\d{2,3})/(\d\d)/(\d\d)", text)
    return None if found is None else day(int(found[1]) + 1911, found[2], found[3])
