"""Taiwan: a page for each drug code with its prices over time, in Big5, EUC or UTF-8, whatever the page says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import parse_qs, urlsplit

from registers.replica.world import Page, Record, Register, chance, html, maybe, second_layout, written

_NAMES = ("安痛錠", "康健膠囊", "止咳糖水", "降壓片", "消炎膏")
_MAKERS = ("中國化學製藥", "信東生技", "東洋製藥", "永信藥品")
_FORMS = (lambda v: f"{v:,.2f}", lambda v: f"{v:.2f} 元", lambda v: f"NT$ {v:,.2f}")
_SENT = (
    ("utf-8", "text/html; charset=utf-8", "utf-8"),
    ("big5", "text/html; charset=big5", "big5"),
    ("big5", "text/html; charset=utf-8", "utf-8"),
    ("big5", "text/html; charset=euc-tw", "euc-tw"),
    ("euc_jp", "text/html", "big5"),
    ("utf-8", "text/html; charset=big5", "big5"),
)
"""The encoding of a page, and what its header and the page itself say about it."""


def _codes(size: int) -> Iterator[str]:
    return (f"A{'BCX'[number % 3]}{number * 7:08}" for number in range(1, size + 1))


def _periods(code: str) -> list[Record]:
    dice = chance("taiwan", code)
    common = {
        "code": code,
        "name": dice.choice(_NAMES),
        "name_english": maybe(dice, dice.choice(("ANTONG TABLETS 5MG", "KANG JIAN CAP.", "O'HARA <COUGH> SYRUP"))),
        "maker": maybe(dice, dice.choice(_MAKERS)),
    }
    year, periods = dice.randint(2005, 2012), []
    for number in range(count := dice.randint(1, 4)):
        until = year + dice.randint(1, 3)
        periods.append(
            {
                **common,
                "price": maybe(dice, round(dice.choice((2, 50, 9_000)) * dice.random() + 1, 2)),
                "valid_from": f"{year}-{dice.randint(1, 12):02}-01",
                "valid_to": None if number == count - 1 else f"{until}-{dice.randint(1, 12):02}-28",
            }
        )
        year = until + 1
    return periods


def _start(size: int) -> Sequence[str]:
    return [f"/drug?code={code}" for code in _codes(size)]


def _truth(size: int) -> Iterator[Record]:
    for code in _codes(size):
        yield from _periods(code)


def _page(path: str, size: int) -> Page | None:
    code = parse_qs(urlsplit(path).query).get("code", [""])[0]
    if urlsplit(path).path != "/drug" or code not in set(_codes(size)):
        return None
    encoding, content_type, said = chance("encoding", code).choice(_SENT)
    draw = _lines if second_layout(path) else _table
    return Page(html(code, draw(_periods(code)), charset=said).encode(encoding), content_type)


def _of_the_republic(date: str | None) -> str:
    """Return a date in years of the Republic, 113/05/01; an open end is written as 9991231."""
    if date is None:
        return "9991231"
    year, month, day = date.split("-")
    return f"{int(year) - 1911}/{month}/{day}"


def _table(periods: list[Record]) -> str:
    first = periods[0]
    dice = chance("table", first["code"])
    head = "".join(
        f"<tr><th>{name}</th><td colspan=2>{escape(value or '')}</td></tr>"
        for name, value in (
            ("藥品代碼", first["code"]),
            ("中文名稱", first["name"]),
            ("英文名稱", first["name_english"]),
            ("製造廠", first["maker"]),
        )
    )
    rows = "".join(
        f"<tr class=period><td>{written(each['price'], dice, _FORMS)}</td>"
        f"<td>{_of_the_republic(each['valid_from'])}</td><td>{_of_the_republic(each['valid_to'])}</td></tr>"
        for each in periods
    )
    return f"<table id=drug>{head}<tr><th>支付價</th><th>自</th><th>至</th></tr>{rows}</table>"


def _lines(periods: list[Record]) -> str:
    first = periods[0]
    dice = chance("lines", first["code"])
    prices = "".join(
        f"<li>{_of_the_republic(each['valid_from'])}~{_of_the_republic(each['valid_to'])}："
        f"{written(each['price'], dice, _FORMS)}</li>"
        for each in periods
    )
    return (
        f"<div class=drug><p>藥品代碼：{first['code']}</p><p>中文名稱：{first['name']}</p>"
        f"<p>英文名稱：{escape(first['name_english'] or '無')}</p><p>製造廠：{first['maker'] or '無'}</p>"
        f"<ul>{prices}</ul></div>"
    )


TAIWAN = Register("Taiwan", _start, _truth, _page)
