"""The Netherlands: a page for each pack, by its number. Some packs have left the register (410)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from registers.replica.world import Page, Record, Register, chance, grouped, html, maybe, second_layout, written

_NAMES = (
    "Amoxicilline",
    "Insuline “Basaal”",
    "Metoprolol retard",
    "Oestradiol",
    "Simvastatine",
    "Tramadol & paracetamol",
)
_FORMS = (
    lambda v: f"€ {grouped(v, '.', ',')}",
    lambda v: f"{grouped(v, '', ',')}",
    lambda v: f"EUR {grouped(v, '.', ',')}",
)


def _numbers(size: int) -> Iterator[str]:
    return (f"{13_000_000 + 7919 * number:08}" for number in range(1, size + 1))


def _record(number: str) -> Record | None:
    dice = chance("netherlands", number)
    if dice.random() < 0.08:
        return None
    strength = dice.choice(("5 mg", "500 mg", "100 E/ml", "2,5 mg/ml"))
    return {
        "zi_number": number,
        "name": f"{dice.choice(_NAMES)} {strength}",
        "atc": maybe(
            dice, f"{dice.choice('ABCJN')}{dice.randint(1, 16):02}{dice.choice('ABC')}A{dice.randint(1, 20):02}"
        ),
        "form": maybe(dice, dice.choice(("tablet", "injectievloeistof", "zalf", "capsule met gereguleerde afgifte"))),
        "quantity": maybe(dice, float(dice.choice((1, 30, 90, 2.5)))),
        "price": maybe(dice, round(dice.choice((5, 80, 3000)) * dice.random() + 0.5, 2)),
        "own_payment": maybe(dice, round(dice.random() * 20, 2), 0.4),
    }


def _start(size: int) -> Sequence[str]:
    return [f"/pakket/{number}" for number in _numbers(size)]


def _truth(size: int) -> Iterator[Record]:
    for number in _numbers(size):
        if (record := _record(number)) is not None:
            yield record


def _page(path: str, size: int) -> Page | None:
    number = path.removeprefix("/pakket/")
    if number not in set(_numbers(size)):
        return None
    record = _record(number)
    if record is None:
        return Page(html("Vervallen", "<h1>Dit pakket is vervallen</h1>").encode(), status=410)
    draw = _items if second_layout(path) else _terms
    return Page(html(record["name"], draw(record)).encode())


def _terms(record: Record) -> str:
    dice = chance("terms", record["zi_number"])
    quantity = written(record["quantity"], dice, (lambda v: f"{v:g} stuks".replace(".", ","),))
    terms = {
        "ZI-nummer": record["zi_number"],
        "ATC-code": record["atc"] or "onbekend",
        "Vorm": record["form"] or "",
        "Hoeveelheid": quantity,
        "Prijs": written(record["price"], dice, _FORMS),
        "Eigen betaling": written(record["own_payment"], dice, _FORMS),
    }
    listed = list(terms.items())
    dice.shuffle(listed)
    rows = "".join(f"<dt>{name}:</dt><dd>{escape(value)}</dd>" for name, value in listed)
    return f"<h1>{escape(record['name'])}</h1><dl>{rows}</dl>"


def _items(record: Record) -> str:
    dice = chance("items", record["zi_number"])
    values = {
        "productID": f"zi:{record['zi_number']}",
        "name": record["name"],
        "code": record["atc"] or "",
        "drugForm": record["form"] or "",
        "quantity": "" if record["quantity"] is None else f"{record['quantity']:g}",
        # Machine-readable prices have a point.
        "price": "" if record["price"] is None else f"{record['price']:.2f}",
        "ownPayment": dice.choice(("", "nvt")) if record["own_payment"] is None else f"{record['own_payment']:.2f}",
    }
    metas = "".join(f'<meta itemprop="{name}" content="{escape(value)}">' for name, value in values.items() if value)
    return f'<div itemscope itemtype="https://schema.org/Drug">{metas}<p>{escape(record["name"])}</p></div>'


NETHERLANDS = Register("Netherlands", _start, _truth, _page)
