"""India: a page for each product, with its packs, several pages long. The table changes the order of its columns."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from urllib.parse import parse_qs, urlsplit

from registers.replica.world import Page, Record, Register, chance, html, maybe, second_layout, written

_PER_PAGE = 4
_BRANDS = ("Amlo", "Cefi", "Dolo", "Gluco", "Losar", "Metro", "Ome", "Para", "Rabe", "Telmi")
_COMPANIES = ("Asha Pharma Ltd.", "Bharat & Sons", "Ganga Remedies <India>", "“Surya” Labs", "Vindhya Bio")
_PACKS = ("10 tablets in strip", "15 capsules in strip", "60 ml in bottle", "1 vial", "5 ml in ampoule")


def _indian(value: float) -> str:
    """Return a number grouped as in India: 1,23,456.50."""
    whole, _, rest = f"{value:.2f}".partition(".")
    head, tail = whole[:-3], whole[-3:]
    parts: list[str] = []
    while head:
        parts.insert(0, head[-2:])
        head = head[:-2]
    return ",".join([*parts, tail]) + f".{rest}"


_FORMS = (lambda v: f"₹ {_indian(v)}", lambda v: f"Rs. {v:.2f}", lambda v: f"{v:.2f}/-", _indian)


def _codes(size: int) -> Iterator[str]:
    return (f"IN{number:06}" for number in range(1, size + 1))


def _product(code: str) -> list[Record]:
    dice = chance("india", code)
    strength = dice.choice((5, 10, 250, 500, 650))
    common = {
        "product": code,
        "brand": f"{dice.choice(_BRANDS)} {strength}",
        "composition": maybe(dice, f"{dice.choice(('Amlodipine', 'Paracetamol', 'Telmisartan'))} {strength} mg"),
        "company": maybe(dice, dice.choice(_COMPANIES)),
    }
    return [
        {
            **common,
            "pack": f"{code}-{number:02}",
            "size": maybe(dice, dice.choice(_PACKS)),
            "mrp": maybe(dice, round(dice.choice((12, 250, 4_000, 150_000)) * dice.random() + 1, 2)),
            "ceiling": maybe(dice, round(dice.random() * 500 + 1, 2), 0.5),
            "updated": maybe(dice, f"20{dice.randint(18, 25)}-{dice.randint(1, 12):02}-{dice.randint(1, 28):02}"),
        }
        for number in range(1, dice.choice((0, 1, 2, 3, 6, 11)) + 1)
    ]


def _start(size: int) -> Sequence[str]:
    return [f"/product/{code}" for code in _codes(size)]


def _truth(size: int) -> Iterator[Record]:
    for code in _codes(size):
        yield from _product(code)


def _page(path: str, size: int) -> Page | None:
    parts = urlsplit(path)
    code = parts.path.removeprefix("/product/")
    if code not in set(_codes(size)):
        return None
    number = int(parse_qs(parts.query).get("page", ["1"])[0])
    rows = _product(code)
    last = max(1, -(-len(rows) // _PER_PAGE))
    if not 1 <= number <= last:
        return None
    # A page begins with the last pack of the page before.
    shown = rows[max(0, (number - 1) * _PER_PAGE - 1) : number * _PER_PAGE]
    # The last page of some products names itself as the next one.
    following = number + 1 if number < last else number if chance("end", code).random() < 0.3 else None
    link = "" if following is None else f'<a rel="next" href="/product/{code}?page={following}">Next</a>'
    draw = _sections if second_layout(path) else _table
    first = rows[0] if rows else {"brand": code, "company": None, "composition": None}
    return Page(html(str(first["brand"]), draw(path, first, shown) + link).encode())


def _date(value: str | None, dashes: bool) -> str:
    if value is None:
        return "00/00/0000" if dashes else ""
    year, month, day = value.split("-")
    return f"{day}-{month}-{year}" if dashes else f"{day}/{month}/{year}"


def _table(path: str, first: Record, shown: list[Record]) -> str:
    dice = chance("table", path)
    columns = ["Pack", "Size", "MRP", "Ceiling price", "Updated on"]
    dice.shuffle(columns)

    def cells(row: Record) -> str:
        values = {
            "Pack": row["pack"],
            "Size": row["size"] or "",
            "MRP": written(row["mrp"], dice, _FORMS),
            "Ceiling price": written(row["ceiling"], dice, _FORMS),
            "Updated on": _date(row["updated"], dice.random() < 0.5),
        }
        return "<tr>" + "".join(f"<td> {escape(values[name])}\n</td>" for name in columns) + "</tr>"

    head = "".join(f"<th>{name}</th>" for name in columns)
    company = f'<p class="company">{escape(first["company"])}</p>' if first["company"] else ""
    composition = f"<p>Composition: <b>{escape(first['composition'] or '')}</b></p>"
    return (
        f"<h1>{escape(first['brand'])}</h1>{company}{composition}"
        f'<table id="packs"><tr>{head}</tr>{"".join(map(cells, shown))}</table>'
    )


def _sections(path: str, first: Record, shown: list[Record]) -> str:
    dice = chance("sections", path)

    def section(row: Record) -> str:
        prices = "".join(
            f'<span class="{name}">{escape(written(row[name], dice, _FORMS))}</span>' for name in ("mrp", "ceiling")
        )
        return (
            f'<section data-pack="{row["pack"]}"><h3>{escape(row["size"] or "")}</h3>{prices}'
            f'<time datetime="{row["updated"] or ""}"></time></section>'
        )

    head = f'<header data-company="{escape(first["company"] or "")}"><h2>{escape(first["brand"])}</h2>'
    return f"{head}<em>{escape(first['composition'] or '—')}</em></header>{''.join(map(section, shown))}"


INDIA = Register("India", _start, _truth, _page)
