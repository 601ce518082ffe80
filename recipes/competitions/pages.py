"""Reads the pages of the site. Nothing here fetches: text in, values out."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass
from urllib.parse import urljoin, urlsplit

from selectolax.lexbor import LexborHTMLParser, LexborNode

_TAIL = [bytes([each]).decode("windows-1252", "ignore") or chr(each) for each in range(0x80, 0xC0)]
_T = "[" + re.escape("".join(_TAIL)) + "]"
_GARBLED = re.compile(f"[\xc2-\xdf]{_T}|[\xe0-\xef]{_T}{{2}}|[\xf0-\xf4]{_T}{{3}}")
"""UTF-8 that was read as windows-1252, as browsers do for pages that call themselves Latin-1."""
_BYTES = {character: 0x80 + number for number, character in enumerate(_TAIL)}
_BLOCKED = re.compile(r"checking your browser|just a moment|enable cookies", re.IGNORECASE)
_YEAR = re.compile(r"(?<!\d)(1[89]\d\d|20\d\d)(?!\d)")
_NUMBER = re.compile(r"\d{1,3}(?:[.,\s]\d{3}){1,2}|\d{1,9}")
_UNKNOWN = frozenset({"", "-", "—", "n/a", "unknown"})


class PageRefusedError(Exception):
    """The page is not what was asked for: a block page, or a part of it is missing."""


@dataclass(frozen=True, kw_only=True)
class ClubRecord:
    """A club in one season. What the site does not say is None."""

    season: str
    club_id: str
    club: str
    city: str
    founded: int | None
    stadium: str | None
    capacity: int | None

    def as_dict(self) -> dict[str, str | int | None]:
        """Return the record as results have it."""
        return asdict(self)


@dataclass(frozen=True)
class Link:
    """A link with its text."""

    url: str
    text: str


@dataclass(frozen=True)
class SeasonPage:
    """One page of the clubs of a season."""

    clubs: tuple[ClubRecord, ...]
    expected: int
    """How many clubs the season has, by its own heading."""
    following: str | None
    """The URL of the next page."""


def read_front(html: str, url: str) -> tuple[tuple[Link, ...], str | None]:
    """Return the competitions on a page of the list, and the URL of the next page. Raise `PageRefusedError`."""
    page = _whole(html)
    return _links(page, "#competitions a.competition", url), _next(page, url)


def read_competition(html: str, url: str) -> tuple[Link, ...]:
    """Return the seasons of a competition. Raise `PageRefusedError`."""
    return _links(_whole(html), "#seasons a.season", url)


def read_season(html: str, url: str, season: str) -> SeasonPage:
    """Return the clubs on a page of a season, in either layout. Raise `PageRefusedError`."""
    page = _whole(html)
    count = page.css_first("p.count")
    if count is None:
        raise PageRefusedError("the page does not say how many clubs there are")
    rows = page.css("#clubs tr[data-club]")
    clubs = [_from_row(row, season) for row in rows] or [
        _from_card(card, season) for card in page.css("#clubs article[data-club]")
    ]
    return SeasonPage(tuple(clubs), _number(count.text()) or 0, _next(page, url))


def competition_id_of(url: str) -> str:
    """Return the id of a competition, which is the last part of its URL."""
    return urlsplit(url).path.rstrip("/").rpartition("/")[2]


def ungarbled(text: str) -> str:
    """Return a page whose encoding was not the one that it named, as it was meant."""
    found = _GARBLED.findall(text)
    others = sum(not each.isascii() for each in _GARBLED.sub("", text))
    return _GARBLED.sub(_restored, text) if 2 * len(found) > others else text


def _restored(found: re.Match[str]) -> str:
    read = bytes(_BYTES.get(character) or ord(character) for character in found[0])
    try:
        return read.decode()
    except UnicodeDecodeError:
        return found[0]


def _whole(html: str) -> LexborHTMLParser:
    page = LexborHTMLParser(ungarbled(html))
    if page.css_first("footer#end") is None:
        text = page.body.text() if page.body is not None else ""
        refused = _BLOCKED.search(text) is not None
        raise PageRefusedError("the site shows a block page" if refused else "the end of the page is missing")
    return page


def _links(page: LexborHTMLParser, selector: str, url: str) -> tuple[Link, ...]:
    found = [(each.attributes.get("href"), _text(each)) for each in page.css(selector)]
    joined = [(_joined(url, href), text) for href, text in found]
    return tuple(Link(each, text) for each, text in joined if each is not None)


def _next(page: LexborHTMLParser, url: str) -> str | None:
    link = page.css_first('a[rel="next"]')
    return None if link is None else _joined(url, link.attributes.get("href"))


def _joined(url: str, href: str | None) -> str | None:
    try:
        return urljoin(url, href) if href else None
    except ValueError:
        return None  # it is no address at all


def _from_row(row: LexborNode, season: str) -> ClubRecord:
    cells = [_text(cell) for cell in row.css("td")]
    club, city, founded, stadium, capacity = (*cells, *[""] * 5)[:5]
    return _record(row, season, club, {"city": city, "founded": founded, "ground": stadium, "capacity": capacity})


def _from_card(card: LexborNode, season: str) -> ClubRecord:
    names = [_text(each).rstrip(":").lower().removeprefix("home ") for each in card.css("dt")]
    heading = card.css_first("h3")
    club = "" if heading is None else _text(heading)
    return _record(card, season, club, dict(zip(names, map(_text, card.css("dd")), strict=False)))


def _record(node: LexborNode, season: str, club: str, facts: dict[str, str]) -> ClubRecord:
    year, ground = _YEAR.search(facts.get("founded", "")), facts.get("ground", "")
    return ClubRecord(
        season=season,
        club_id=node.attributes.get("data-club") or "",
        club=club,
        city=facts.get("city", ""),
        founded=int(year[0]) if year else None,
        stadium=None if ground.lower() in _UNKNOWN else ground,
        capacity=_number(facts.get("capacity", "")),
    )


def _number(text: str) -> int | None:
    found = _NUMBER.search(text)
    return int(re.sub(r"\D", "", found[0])) if found else None


def _text(node: LexborNode) -> str:
    return " ".join(node.text().split())
