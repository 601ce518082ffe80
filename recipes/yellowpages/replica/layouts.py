"""The pages of the replica: two layouts, fields that are missing or malformed, and encodings that are not as declared.

Every choice depends on the page only, so that a page is the same each time.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from urllib.parse import urlencode

from yellowpages.places import Target
from yellowpages.replica.world import PER_PAGE, Business, chance, results

BLOCK_PAGE = """<!doctype html><html><head><title>Just a moment</title></head><body class="block-page">
<h1>Are you a robot?</h1><form action="/captcha"><div id="captcha"></div></form></body></html>"""


@dataclass(frozen=True)
class Page:
    """A page as it is sent."""

    body: bytes
    content_type: str


def search_path(target: Target, page: int = 1) -> str:
    """Return the path of a page of results."""
    query = {"search_terms": target.category, "geo_location_terms": f"{target.city.name}, {target.city.state}"}
    return f"/search?{urlencode(query | ({'page': str(page)} if page > 1 else {}))}"


def result_page(target: Target, page: int) -> Page | None:
    """Return a page of results; None if the search does not have it."""
    found = results(target)
    pages = max(-(-len(found) // PER_PAGE), 1)
    if not 1 <= page <= pages:
        return None
    first = (page - 1) * PER_PAGE
    # A page repeats the last result of the page before, and the advertisement.
    shown = found[max(first - 1, 0) : first + PER_PAGE]
    if first and found[0].sponsored:
        shown.insert(0, found[0])
    # The last page of some searches names itself as the next one.
    following = page + 1 if page < pages else page if chance("loop", target).random() < 0.2 else None
    href = "" if following is None else escape(search_path(target, following))
    dice = chance("layout", target, page)
    total = len(found) + dice.choice((0, 0, 7))
    title = f"{target.category.title()} in {target.city.name}, {target.city.state}: {total} results"
    make = _cards if dice.random() < 0.25 else _rows
    return _encoded(target, page, make(title, shown, href))


def _encoded(target: Target, page: int, html: str) -> Page:
    fault = chance("encoding", target, page).randrange(7)
    try:
        old = html.encode("cp1252")
    except UnicodeEncodeError:
        fault, old = max(fault, 3), b""
    match fault:
        case 0:
            return Page(old, "text/html; charset=utf-8")
        case 1:
            return Page(html.encode(), "text/html; charset=iso-8859-1")
        case 2:
            return Page(old.replace(b"<head>", b'<head><meta charset="windows-1252">'), "text/html")
        case _:
            return Page(html.encode(), "text/html; charset=utf-8")


def _rows(title: str, shown: list[Business], href: str) -> str:
    link = f'<a rel="next" href="{href}">Next</a>' if href else ""
    rows = "\n".join(_row(each) for each in shown) or "<p>No results found.</p>"
    return f"""<!doctype html>
<html><head><title>{escape(title)}</title><body>
<h1>{escape(title)}</h1><br></p>
<div id="results">
{rows}
</div><div class="pagination">{link}</div>
<script>for (const each of document.querySelectorAll("[data-p]"))
each.textContent = each.dataset.p.split("").reverse().join("");</script>
<footer>&copy; the replica</footer></body></html>"""


def _row(each: Business) -> str:
    dice = chance("row", each.listing_id)
    parts = [f'<div class="result" id="lid-{each.listing_id}"><span>{dice.randint(1, 99)}.</span>']
    if each.sponsored:
        parts.append('<span class="ad-pill">Ad</span>')
    name = "" if each.name is None else f"\n  {escape(each.name)} "
    if name or dice.random() < 0.5:
        parts.append(f'<h2 class="n"><a class="business-name" href="/mip/{each.listing_id}">{name}</a></h2>')
    parts.append('<div class="categories">' + " ".join(f"<a>{escape(one)}</a>" for one in each.categories) + "</div>")
    if (phone := _phone(each)) is not None:
        parts.append(f'<div class="phone primary" data-p="{escape(phone[::-1])}"></div>')
    if each.street is not None:
        parts.append(f'<div class="street-address">{escape(each.street)}</div>')
    if (place := _place(each)) is not None:
        parts.append(f'<div class="locality">{escape(place)}</div>')
    if (website := _website(each)) is not None:
        parts.append(f'<a class="website" href="{escape(website)}">Website</a>')
    rating, reviews = _stars(each)
    if rating or reviews:
        count = f'<span class="count">({reviews})</span>' if reviews else ""
        parts.append(f'<div class="stars" data-rating="{rating}"><i></i>{count}</div>')
    if each.closed:
        parts.append('<b class="closed">CLOSED</b>')
    return "\n".join([*parts, "</div>"])


def _cards(title: str, shown: list[Business], href: str) -> str:
    link = f'<link rel="next" href="{href}">' if href else ""
    cards = "\n".join(_card(each) for each in shown)
    return f"""<!doctype html>
<html lang="en"><head><title>{escape(title)}</title>{link}</head><body>
<main class="cards"><h1>{escape(title)}</h1>
{cards}
</main><footer>&copy; the replica, in its new clothes</footer></body></html>"""


def _card(each: Business) -> str:
    label = '<p class="label">Sponsored</p>' if each.sponsored else ""
    status = '<p class="status">Permanently closed</p>' if each.closed else '<p class="status">Open</p>'
    terms = {"Categories": escape("; ".join(each.categories))}
    if (phone := _phone(each)) is not None:
        terms["Phone"] = f'<a href="tel:x">{escape(phone)}</a>'
    if each.street is not None or _place(each) is not None:
        terms["Address"] = "<br>".join(escape(line) for line in (each.street, _place(each)) if line is not None)
    if (website := _website(each)) is not None:
        terms["Website"] = f'<a href="{escape(website)}">visit</a>'
    rating, reviews = _stars(each)
    if rating or reviews:
        count = f" ({reviews} review{'' if reviews == '1' else 's'})" if reviews else ""
        terms["Rating"] = f"{rating} of 5{count}"
    listed = "".join(f"<dt>{term}</dt><dd>{value}</dd>" for term, value in terms.items())
    name = f"<h2>{escape(each.name or '')}</h2>"
    return f'<article class="card" data-id="{each.listing_id}">{label}{name}<dl>{listed}</dl>{status}</article>'


def _phone(each: Business) -> str | None:
    dice = chance("phone", each.listing_id)
    if each.phone is None:
        return dice.choice((None, "CALL NOW", "555-01"))
    area, three, four = each.phone[2:5], each.phone[5:8], each.phone[8:]
    forms = (
        f"({area}) {three}-{four}",
        f"{area}.{three}.{four}",
        f"+1 {area} {three} {four}",
        f"1-{area}-{three}-{four}",
    )
    return dice.choice(forms)


def _place(each: Business) -> str | None:
    if each.city is None:
        return chance("place", each.listing_id).choice((None, "Serving the whole county"))
    zip_code = each.zip_code or chance("zip", each.listing_id).choice((None, "7870", "N/A"))
    return f"{each.city}, {each.state}" + ("" if zip_code is None else f" {zip_code}")


def _website(each: Business) -> str | None:
    return each.website or chance("website", each.listing_id).choice((None, "http://", "javascript:void(0)"))


def _stars(each: Business) -> tuple[str, str]:
    dice = chance("stars", each.listing_id)
    rating = str(each.rating) if each.rating is not None else dice.choice(("", "N/A", "47"))
    reviews = str(each.reviews) if each.reviews is not None else dice.choice(("", "many"))
    return rating, reviews
