"""Malaysia: a page for each registered product with all its packs, as data of a script or as a list."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from html import escape

from registers.replica.world import Page, Record, Register, chance, html, maybe, second_layout, written

_NAMES = ("Ubat Batuk Cap Kaki Tiga", "Panadol Soluble", "Minyak Angin", "Zyrtec Drops", "Fluimucil “A” 600")
_HOLDERS = ("Duopharma (M) Sdn. Bhd.", "Hovid Berhad", "Kotra & Anak-Anak", "Pharmaniaga Logistics")
_FORMS = (lambda v: f"RM {v:,.2f}", lambda v: f"RM{v:.2f}", lambda v: f"{v:.2f}")


def _numbers(size: int) -> Iterator[str]:
    return (f"MAL{19900000 + 37 * number}{'AXT'[number % 3]}" for number in range(1, size + 1))


def _product(number: str) -> list[Record]:
    dice = chance("malaysia", number)
    common = {
        "registration": number,
        "name": dice.choice(_NAMES),
        "holder": maybe(dice, dice.choice(_HOLDERS)),
        "prescription": dice.random() < 0.5,
    }
    sizes = dice.sample((10, 20, 30, 50, 100, 500, 1000), dice.randint(0, 4))
    return [
        {
            **common,
            "pack": f"{size} tablets",
            "wholesale": maybe(dice, round(size * dice.random() + 1, 2)),
            "retail": maybe(dice, round(size * dice.random() * 2 + 1, 2)),
        }
        for size in sizes
    ]


def _start(size: int) -> Sequence[str]:
    return [f"/product/{number}" for number in _numbers(size)]


def _truth(size: int) -> Iterator[Record]:
    for number in _numbers(size):
        yield from _product(number)


def _page(path: str, size: int) -> Page | None:
    number = path.removeprefix("/product/")
    if number not in set(_numbers(size)):
        return None
    rows, dice = _product(number), chance("malaysia page", path)
    if not rows:
        return Page(html(number, f'<p class="none">No pack of {number} has a price.</p>').encode())
    draw = _list if second_layout(path) else _script
    body = html(number, draw(number, rows)).encode()
    # The server does not say which encoding it sends, and some pages begin with a byte order mark.
    return Page((b"\xef\xbb\xbf" if dice.random() < 0.2 else b"") + body, "text/html")


def _script(number: str, rows: list[Record]) -> str:
    dice = chance("script", number)
    packs = []
    for row in rows:
        prices: dict[str, object] = {
            # Numbers as numbers, as text, and missing.
            name: dice.choice((row[name], written(row[name], dice, _FORMS)))
            for name in ("wholesale", "retail")
        }
        packs.append({"pack": row["pack"], **{name: value for name, value in prices.items() if value is not None}})
    first = rows[0]
    data = {
        "registration": number,
        "product": {"name": first["name"], "poison": first["prescription"]},
        "holder": first["holder"] or dice.choice((None, "")),
        "packs": packs,
    }
    text = json.dumps(data, ensure_ascii=dice.random() < 0.5).replace("</", "<\\/")
    return f'<div id="app">Loading …</div><script id="register" type="application/json">{text}</script>'


def _list(number: str, rows: list[Record]) -> str:
    dice = chance("list", number)
    first = rows[0]
    poison = "Poison (on prescription)" if first["prescription"] else "Over the counter"
    items = "".join(
        f"<li>{row['pack']} | Retail: {written(row['retail'], dice, _FORMS)}"
        f" | Wholesale: {written(row['wholesale'], dice, _FORMS)}</li>"
        for row in rows
    )
    return (
        f"<dl><dt>Registration</dt><dd>{number}</dd><dt>Product</dt><dd>{escape(first['name'])}</dd>"
        f"<dt>Holder</dt><dd>{escape(first['holder'] or '-')}</dd><dt>Class</dt><dd>{poison}</dd></dl>"
        f'<ul class="packs">{items}</ul>'
    )


MALAYSIA = Register("Malaysia", _start, _truth, _page)
