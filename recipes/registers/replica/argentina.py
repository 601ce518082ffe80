"""Argentina: a list of laboratories, a page for each with links to its products, and a page for each product."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from registers.replica.world import Page, Record, Register, chance, grouped, html, maybe, second_layout, written

_PER_LABORATORY = 8
_NAMES = ("Actrón 600", "Bayaspirina", "Ibupirac Niños", "Sertal Compuesto", "Tafirol Ñandú", "Aspirinetas")
_DRUGS = ("ibuprofeno", "ácido acetilsalicílico", "propinoxato + clonixinato", "paracetamol")
_PACKS = ("comp. x 10", "comp. x 30", "jarabe 100 ml", "gotas pediátricas 15 ml", "ampollas x 5")
_FORMS = (
    lambda v: f"$ {grouped(v, '.', ',')}",
    lambda v: f"${grouped(v, '', ',')}",
    lambda v: f"AR$ {grouped(v, '.', ',')}",
)


def _laboratory(number: int) -> str:
    maker = chance("laboratory", number).choice(("Bagó", "Núñez & Cía.", "Peña", "Roemmers", "Añelo Médica"))
    return f"{maker} {number}"


def _presentations(product: int) -> list[Record]:
    dice = chance("argentina", product)
    common = {
        "product": product,
        "name": dice.choice(_NAMES),
        "laboratory": _laboratory((product - 1) // _PER_LABORATORY + 1),
        "drug": maybe(dice, dice.choice(_DRUGS)),
    }
    return [
        {
            **common,
            "presentation": pack,
            "price": maybe(dice, round(dice.choice((900, 45_000, 1_500_000)) * dice.random() + 1, 2)),
            "valid_from": maybe(dice, f"20{dice.randint(20, 25)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"),
        }
        for pack in dice.sample(_PACKS, dice.randint(0, 4))
    ]


def _start(size: int) -> Sequence[str]:
    del size
    return ["/laboratorios"]


def _truth(size: int) -> Iterator[Record]:
    for product in range(1, size + 1):
        yield from _presentations(product)


def _page(path: str, size: int) -> Page | None:
    if path == "/laboratorios":
        numbers = range(1, -(-size // _PER_LABORATORY) + 1)
        links = "".join(f'<li><a href="/laboratorio/{n}">{escape(_laboratory(n))}</a>' for n in numbers)
        return _sent(path, "Laboratorios", f'<ul class="laboratorios">{links}</ul>')
    kind, _, number = path.removeprefix("/").partition("/")
    if not number.isdigit():
        return None
    if kind == "laboratorio":
        first = (int(number) - 1) * _PER_LABORATORY + 1
        products = range(first, min(first + _PER_LABORATORY, size + 1))
        # Each is linked twice: by its name and by its picture.
        links = "".join(
            f'<a class="producto" href="/producto/{n}">Producto {n}</a><a class="producto" href="../producto/{n}#foto">'
            for n in products
        )
        return _sent(path, _laboratory(int(number)), links) if products else None
    if kind != "producto" or not 1 <= int(number) <= size:
        return None
    rows = _presentations(int(number))
    name = rows[0]["name"] if rows else "Producto sin presentaciones"
    content = "<p>Sin presentaciones.</p>" if not rows else (_blocks if second_layout(path) else _table)(rows)
    return _sent(path, name, content)


def _sent(path: str, title: str, content: str) -> Page:
    # Latin-1 as browsers read it, which is windows-1252, also where the page says it is UTF-8; and UTF-8.
    encoding, said = chance("sent", path).choice((("cp1252", "utf-8"), ("cp1252", "iso-8859-1"), ("utf-8", "utf-8")))
    return Page(html(title, content, charset=said).encode(encoding), f"text/html; charset={said}")


def _date(value: str | None) -> str:
    return "" if value is None else f"{value[8:]}/{value[5:7]}/{value[2:4]}"


def _table(rows: list[Record]) -> str:
    first = rows[0]
    dice = chance("table", first["product"])
    lines = "".join(
        f"<tr><td>{row['presentation']}<td>{written(row['price'], dice, _FORMS)}<td>{_date(row['valid_from'])}"
        for row in rows
    )
    head = f"<h1>{escape(first['name'])}</h1><h2>{escape(first['laboratory'])}</h2>"
    return (
        f'{head}<p class=droga>{first["drug"] or ""}</p><table class="precios" data-producto="{first["product"]}">'
        f"<tr><th>Presentación<th>Precio<th>Vigencia{lines}</table>"
    )


def _blocks(rows: list[Record]) -> str:
    first = rows[0]
    dice = chance("blocks", first["product"])
    blocks = "".join(
        f'<div class="presentacion" title="{row["presentation"]}">desde {_date(row["valid_from"]) or "siempre"}:'
        f" <strong>{written(row['price'], dice, _FORMS)}</strong></div>"
        for row in rows
    )
    drug = f"<span>Droga: {first['drug']}</span>" if first["drug"] else ""
    return (
        f'<article id="p{first["product"]}"><header>{escape(first["name"])} — {escape(first["laboratory"])}</header>'
        f"{drug}{blocks}</article>"
    )


ARGENTINA = Register("Argentina", _start, _truth, _page)
