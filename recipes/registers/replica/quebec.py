"""Quebec: a page that links to lists of medicines, each a PDF of several pages with a table and headings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from registers.replica.pdf import Text, pdf
from registers.replica.world import Page, Record, Register, chance, grouped, html, maybe, second_layout, written

_PER_LIST = 40
_ROWS_PER_PAGE = 18
_GENERICS = (
    "ACÉTAMINOPHÈNE Co. 325 mg",
    "BISOPROLOL (FUMARATE DE) Co. 5 mg",
    "FUROSÉMIDE Sol. Inj. 10 mg/mL",
    "ŒSTRADIOL Timbre cut. 50 mcg",
)
_BRANDS = ("Apo-Acet", "Novo-Bisoprolol", "pms-Furosemide", "Estradot (50)", "Sandoz É", "Ratio-Tec")
_MAKERS = ("Apotex", "Pro Doc ltée", "Pharmascience", "Sandoz", "Teva Can")
_FORMS = (lambda v: grouped(v, " ", ","), lambda v: f"{grouped(v, '', ',')} $")
_COLUMNS = {
    "usual": (
        ("DIN", 40),
        ("Marque de commerce", 110),
        ("Fabricant", 270),
        ("Format", 390),
        ("Coût du format", 480),
        ("Prix unitaire", 600),
    ),
    "other": (
        ("Marque de commerce", 40),
        ("Fabricant", 210),
        ("DIN", 330),
        ("Prix unitaire", 420),
        ("Format", 540),
        ("Coût du format", 640),
    ),
}


def _listed(number: int, size: int) -> list[Record]:
    """Return the rows of a list, in the order of the file."""
    first = (number - 1) * _PER_LIST + 1
    rows = []
    for item in range(first, min(first + _PER_LIST, size + 1)):
        dice = chance("quebec", item)
        rows.append(
            {
                "list": f"2025-{number:02}",
                # A heading is above several rows, and goes on over the end of a page.
                "generic": chance("generic", item // 7).choice(_GENERICS),
                "din": f"{2_000_000 + 13 * item:08}",
                "brand": dice.choice(_BRANDS),
                "maker": maybe(dice, dice.choice(_MAKERS)),
                "format": maybe(dice, str(dice.choice((1, 10, 100, 500)))),
                "cost": maybe(dice, round(dice.choice((9, 300, 12_000)) * dice.random() + 1, 2)),
                "unit_price": maybe(dice, round(dice.random() * 30, 4)),
            }
        )
    return rows


def _count(size: int) -> int:
    return -(-size // _PER_LIST)


def _start(size: int) -> Sequence[str]:
    del size
    return ["/publications"]


def _truth(size: int) -> Iterator[Record]:
    for number in range(1, _count(size) + 1):
        yield from _listed(number, size)


def _page(path: str, size: int) -> Page | None:
    if path == "/publications":
        links = "".join(
            f'<li><a href="/listes/liste-{n}.pdf">Liste n<sup>o</sup> {n}</a>' for n in range(1, _count(size) + 1)
        )
        content = f'<h1>Médicaments assurés</h1><ul>{links}<li><a href="/aide">Aide</a></ul>'
        return Page(html("Publications", content, charset="iso-8859-1").encode("latin-1"), "text/html")
    number = path.removeprefix("/listes/liste-").removesuffix(".pdf")
    if not number.isdigit() or not 1 <= int(number) <= _count(size):
        return None
    return Page(_file(int(number), size), "application/pdf")


@lru_cache(maxsize=64)
def _file(number: int, size: int) -> bytes:
    """Return a list as a PDF."""
    columns = _COLUMNS["other" if second_layout(f"liste-{number}") else "usual"]
    rows, heading = _listed(number, size), ""
    pages: list[list[Text]] = []
    for index, row in enumerate(rows):
        if index % _ROWS_PER_PAGE == 0:
            pages.append(_head(number, len(pages) + 1, columns))
            line = 500
            if heading == row["generic"]:
                pages[-1].append(Text(40, line, f"{heading} (suite)", 10))
                line -= 16
        if heading != row["generic"]:
            heading = row["generic"]
            pages[-1].append(Text(40, line, heading, 10))
            line -= 16
        pages[-1] += _row(row, line, columns)
        line -= 14
    return pdf(pages)


def _head(number: int, page: int, columns: Sequence[tuple[str, int]]) -> list[Text]:
    return [
        Text(40, 570, f"Liste des médicaments 2025-{number:02}", 14),
        *(Text(x, 530, name, 9) for name, x in columns),
        Text(700, 30, f"page {page}", 8),
    ]


def _row(row: Record, y: int, columns: Sequence[tuple[str, int]]) -> list[Text]:
    dice = chance("row", row["din"])
    values = {
        "DIN": row["din"],
        "Marque de commerce": row["brand"],
        "Fabricant": row["maker"] or "",
        "Format": row["format"] or dice.choice(("", "-")),
        "Coût du format": written(row["cost"], dice, _FORMS),
        "Prix unitaire": dice.choice(("", "?"))
        if row["unit_price"] is None
        else f"{row['unit_price']:.4f}".replace(".", ","),
    }
    return [Text(x, y, values[name], 9, kerned=dice.random() < 0.3) for name, x in columns if values[name]]


QUEBEC = Register("CanadaQuebec", _start, _truth, _page)
