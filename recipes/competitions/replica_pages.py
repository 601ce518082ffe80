"""The pages of the replica: two layouts, rows that are no clubs, values written in many ways, wrong encodings."""

from __future__ import annotations

import hashlib
import html
from collections.abc import Sequence
from dataclasses import dataclass

from competitions.replica_data import Club, Competition, Season

CLUBS_ON_A_PAGE, COMPETITIONS_ON_A_PAGE = 8, 5
BLOCK_PAGE = """<!DOCTYPE html><html><head><title>Just a moment…</title><meta charset="utf-8"></head>
<body><h1>Checking your browser</h1><p>Please enable cookies and reload the page.</p></body></html>"""


@dataclass(frozen=True)
class Written:
    """A page as it is sent: its bytes, and what the Content-Type header says about them."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"


def lot(text: str, sides: int) -> int:
    """Return a number below `sides` that depends on the text alone."""
    return hashlib.sha256(text.encode()).digest()[0] % sides


def front_page(found: Sequence[Competition], page: int) -> Written:
    """Return one page of the list of competitions."""
    shown = found[(page - 1) * COMPETITIONS_ON_A_PAGE : page * COMPETITIONS_ON_A_PAGE]
    rows = "".join(
        f'<li><a class="competition" href="/competitions/{each.competition_id}">{html.escape(each.name)}</a></li>'
        for each in shown
    )
    more = page * COMPETITIONS_ON_A_PAGE < len(found)
    after = f'<a rel="next" href="/competitions?page={page + 1}">next</a>' if more else ""
    body = f'<ul id="competitions">{rows}</ul><ul class="partners"><li><a href="/ads/1">Bets!</a></li></ul>{after}'
    return _page("Competitions", body)


def competition_page(found: Competition) -> Written:
    """Return the page of a competition, with links to its seasons."""
    links = "".join(
        f'<li><a class="season" href="{found.competition_id}/seasons/{each.number}">{each.name}</a></li>'
        for each in found.seasons
    )
    body = f'<h1>{html.escape(found.name)}</h1><p class="country">{found.country}</p><ol id="seasons">{links}</ol>'
    return _page(found.name, body)


def season_page(found: Competition, season: Season, page: int) -> Written:
    """Return one page of a season's clubs; every page but the first repeats the last club of the page before."""
    first = (page - 1) * CLUBS_ON_A_PAGE
    shown = season.clubs[max(first - 1, 0) : first + CLUBS_ON_A_PAGE]
    path = f"/competitions/{found.competition_id}/seasons/{season.number}"
    cards = lot(path, 3) == 0
    rows = "".join(_card(each) if cards else _row(each) for each in shown)
    if cards:
        ghost = '<article class="club template" hidden><h3>Club name</h3><dl><dt>City</dt><dd>City</dd></dl></article>'
        table = f'<section id="clubs">{ghost}{rows}</section>'
    else:
        head = "<tr><th>Club</th><th>City</th><th>Founded</th><th>Ground</th><th>Capacity</th></tr>"
        ghost = '<tr class="template" hidden><td>Club name</td><td>City</td><td>1900</td></tr>'
        advert = '<tr class="ad"><td colspan="5">Buy your boots here</td></tr>'
        table = f'<table id="clubs">{head}{ghost}{advert}{rows}</table>'
    more = first + CLUBS_ON_A_PAGE < len(season.clubs)
    after = f'<a rel="next" class="more" href="?page={page + 1}">more</a>' if more else ""
    related = '<aside><h2>Related</h2><ul><li data-club="xx-0">Another Club FC</li></ul></aside>'
    body = f'<h1>{season.name}</h1><p class="count">{len(season.clubs)} clubs</p>{table}{after}{related}'
    return _page(f"{found.name} {season.name}", body, encoding=lot(f"{path} {page}", 4))


def _row(club: Club) -> str:
    cells = [
        f'<a href="/clubs/{club.club_id}">\n   {_text(club.club)}&nbsp; </a>',
        _text(club.city),
        _founded(club),
        _text(club.stadium or ("", "—", "n/a")[lot(club.club_id, 3)]),
        _capacity(club),
    ]
    while club.capacity is None and cells[-1] in {"", "—"}:
        cells.pop()  # the site leaves out what it does not know at the end of a row
    return f'<tr data-club="{club.club_id}">' + "".join(f"<td>{each}</td>" for each in cells) + "</tr>\n"


def _card(club: Club) -> str:
    facts = [("City", _text(club.city)), ("Founded", _founded(club)), ("Capacity", _capacity(club))]
    if club.stadium:
        facts.insert(lot(club.club_id, 3), ("Home ground", _text(club.stadium)))
    terms = "".join(f"<dt>{name}:</dt><dd> {value}</dd>" for name, value in facts if value)
    return f'<article class="club" data-club="{club.club_id}"><h3>{_text(club.club)}</h3><dl>{terms}</dl></article>\n'


def _founded(club: Club) -> str:
    if club.founded is None:
        return ("", "—", "unknown", "19??")[lot(club.club_id, 4)]
    return ("{}", "c. {}", "est. {}", "{} (as a gymnastics club)")[lot(club.club, 4)].format(club.founded)


def _capacity(club: Club) -> str:
    if club.capacity is None:
        return ("", "—", "n/a")[lot(club.club_id, 3)]
    grouped = f"{club.capacity:,}"
    forms = (grouped, grouped.replace(",", "."), grouped.replace(",", "\N{NARROW NO-BREAK SPACE}"), str(club.capacity))
    return forms[lot(club.city + club.club_id, 4)] + (" (all seated)" if lot(club.club, 5) == 0 else "")


def _text(text: str) -> str:
    return html.escape(text).replace("é", "&eacute;")


def _page(title: str, body: str, encoding: int = 0) -> Written:
    """Return a page. Of four encodings, one is UTF-8 that the header calls Latin-1, one is windows-1252."""
    charset = "windows-1252" if encoding == 1 else "utf-8"
    text = (
        f'<!DOCTYPE html><html><head><meta charset="{charset}"><title>{html.escape(title)}</title></head><body>\n{body}'
        '\n<footer id="end">The Replica of Football</footer></body></html>'
    )
    if encoding == 1:
        return Written(text.encode("windows-1252", "xmlcharrefreplace"), "text/html")
    return Written(text.encode(), "text/html; charset=iso-8859-1" if encoding == 2 else "text/html; charset=utf-8")
