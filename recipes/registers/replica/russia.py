"""Russia: pages that are sent only as the answer to a form with a token, with cells over several rows and inner tables.

In windows-1251, KOI8-R or UTF-8, whatever the page says.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby

from registers.replica.world import Page, Record, Register, chance, grouped, html, maybe, second_layout, written

PER_PAGE = 6
"""Medicines on a page; each has one or more packs."""
_NAMES = ("Амоксициллин", "Анальгин", "Бисопролол", "Корвалол®", "Парацетамол", "Эналаприл-Акри")
_INNS = ("амоксициллин", "метамизол натрия", "бисопролол", "парацетамол", "эналаприл")
_HOLDERS = ("ОАО «Синтез»", "ООО «Озон»", "АО «Акрихин»", "Тева (Израиль)")
_FORMS = (
    lambda v: grouped(v, " ", ","),
    lambda v: f"{grouped(v, '', ',')} руб.",
    lambda v: f"{v:.2f}",
    lambda v: grouped(v, "\N{NO-BREAK SPACE}", ","),
)
_SENT = (
    ("cp1251", "text/html; charset=windows-1251", "windows-1251"),
    ("cp1251", "text/html; charset=utf-8", "windows-1251"),
    ("cp1251", "text/html", "utf-8"),
    ("koi8_r", "text/html; charset=windows-1251", "windows-1251"),
    ("utf-8", "text/html; charset=windows-1251", "windows-1251"),
)


def _packs(number: int) -> list[Record]:
    dice = chance("russia", number)
    common = {
        "medicine": f"ЛП-{number:06}",
        "name": dice.choice(_NAMES),
        "inn": maybe(dice, dice.choice(_INNS)),
        "holder": maybe(dice, dice.choice(_HOLDERS)),
    }
    return [
        {
            **common,
            "barcode": f"46{dice.randint(0, 10**11 - 1):011}",
            "form": maybe(dice, f"таблетки {dice.choice((5, 10, 500))} мг, {dice.choice((10, 20, 50))} шт."),
            "price": maybe(dice, round(dice.choice((20, 900, 250_000)) * dice.random() + 1, 2)),
            "decided": maybe(dice, f"20{dice.randint(10, 25)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"),
        }
        for _ in range(dice.randint(1, 4))
    ]


def _start(size: int) -> Sequence[str]:
    del size
    return ["/search?page=1"]


def _truth(size: int) -> Iterator[Record]:
    for number in range(1, size + 1):
        yield from _packs(number)


def form_page(token: str) -> Page:
    """Return the page with the form and its token, without which no results are sent."""
    fields = f'<input type="hidden" name="__state" value="{token}"><input name="page" value="1">'
    return Page(html("Поиск", f'<form id="search" method="post" action="/search">{fields}</form>').encode())


def expired_page() -> Page:
    """Return what is sent with status 200 if the token is not known, or was used before."""
    return Page(html("Сеанс", "<p class=expired>Сеанс истёк</p>", charset="windows-1251").encode("cp1251"), "text/html")


def _page(path: str, size: int) -> Page | None:
    number = int(path.removeprefix("/search?page="))
    last = -(-size // PER_PAGE)
    if not 1 <= number <= last:
        return None
    first = (number - 1) * PER_PAGE + 1
    rows = [row for each in range(first, min(first + PER_PAGE, size + 1)) for row in _packs(each)]
    encoding, content_type, said = chance("encoding", path).choice(_SENT)
    draw = _cards if second_layout(path) else _rows
    content = f"<h1>Предельные цены</h1>{draw(path, rows)}<p class=pages>Страница {number} из {last}</p>"
    return Page(html("Предельные цены", content, charset=said).encode(encoding, "xmlcharrefreplace"), content_type)


def _date(value: str | None) -> str:
    return ".".join(reversed(value.split("-"))) if value else "—"


def _rows(path: str, rows: list[Record]) -> str:
    dice, lines = chance("rows", path), []
    for medicine, of_medicine in groupby(rows, key=lambda row: str(row["medicine"])):
        packs = list(of_medicine)
        first = packs[0]
        # Cells over all packs of a medicine. The holder is below some of them only once for several medicines.
        head = "".join(
            f'<td rowspan="{len(packs)}">{escape(value)}</td>'
            for value in (medicine, first["name"], first["inn"] or "", first["holder"] or "~")
        )
        for pack in packs:
            cells = (pack["barcode"], pack["form"] or "", written(pack["price"], dice, _FORMS), _date(pack["decided"]))
            lines.append(f"<tr>{head}{''.join(f'<td>{escape(cell)}' for cell in cells)}")
            head = ""
    names = ("Рег. номер", "Торговое наименование", "МНН", "Держатель", "Штрих-код", "Форма", "Цена", "Дата")
    return f"<table class=prices><tr>{''.join(f'<th>{name}' for name in names)}{''.join(lines)}</table>"


def _cards(path: str, rows: list[Record]) -> str:
    dice, cards = chance("cards", path), []
    for medicine, of_medicine in groupby(rows, key=lambda row: str(row["medicine"])):
        packs = list(of_medicine)
        first = packs[0]
        inner = "".join(
            f"<tr><td>{escape(pack['form'] or '')}</td><td><b>{written(pack['price'], dice, _FORMS)}</b>"
            f" от {_date(pack['decided'])}</td><td>{pack['barcode']}</td></tr>"
            for pack in packs
        )
        cards.append(
            f"<tr><td><b>Рег. номер:</b> {medicine}<br><b>Торговое наименование:</b> {escape(first['name'])}<br>"
            f"<b>МНН:</b> {escape(first['inn'] or '')}<br><b>Держатель:</b> {escape(first['holder'] or '~')}</td>"
            f"<td><table>{inner}</table></td></tr>"
        )
    return f"<table class=cards>{''.join(cards)}</table>"


RUSSIA = Register("Russia", _start, _truth, _page)
