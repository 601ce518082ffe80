"""Rules for the prose of 8-K, 10-K and 10-Q: who begins, ends or holds a role, and what a company agrees on or buys."""

from __future__ import annotations

import re
from collections.abc import Iterator

from filings.edgar.submission import Document
from filings.facts.builder import FactBuilder, Piece, day, day_group, number_group, spaced
from filings.facts.fact import Fact
from filings.facts.spelling import DATE

_GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*)"
"""Between two words of a sentence: an empty line ends it."""


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern.replace(r"\s+", _GAP))


_NAME = r"[A-ZÀ-Þ][\w’'-]+(?:\s+(?:[A-Z]\.|[A-ZÀ-Þ][\w’'-]+|de|van|von)){1,4}(?:,?\s+(?:Jr\.|Sr\.|III?|IV))?"
_TITLE = (
    r"(?:Chief\s+(?:Executive|Financial|Operating|Accounting|Technology|Legal|Scientific)\s+Officer"
    r"|Principal\s+Accounting\s+Officer|(?:(?:Executive|Senior)\s+)?Vice\s+President(?:\s+of\s+[A-Z]\w+)?"
    r"|Vice\s+Chairman|Chairman(?:\s+of\s+the\s+Board)?|President|Treasurer|Secretary|Controller|General\s+Counsel"
    r"|[Dd]irector)"
)
_TITLES = rf"(?:the\s+Company[’']s\s+|its\s+|our\s+|an?\s+)?(?P<titles>{_TITLE}(?:(?:,\s+and|,|\s+and)\s+{_TITLE})*)"
_OF = r"(?:\s+of\s+the\s+Company)?"
_WHEN = rf"(?:,?\s+effective\s+(?:as\s+of\s+|on\s+|immediately\s+)?(?P<effective>{DATE}))?"
_LEAD = rf"(?:\bOn\s+(?P<lead>{DATE}),\s+)?"
_BOARD = r"(?:the\s+|our\s+)?[Bb]oard\s+of\s+[Dd]irectors(?:\s+of\s+the\s+Company)?\s+"
_COMPANY = (
    r"[A-Z][\w&’'-]*(?:\s+(?:[A-Z&][\w&’'-]*|of|and)){0,5}?,?\s+"
    r"(?:Incorporated|Inc\.|Corporation|Corp\.|LLC|Ltd\.|Limited|LLP|L\.P\.|GmbH|Company|Co\.|S\.A\.|B\.V\.)"
)
_BEGINS = (
    _compiled(
        rf"{_LEAD}{_BOARD}(?:appointed|elected|named)\s+(?P<name>{_NAME})\s+(?:to\s+serve\s+)?(?:as|to\s+the\s+position\s+of)"
        rf"\s+{_TITLES}{_OF}{_WHEN}"
    ),
    _compiled(
        rf"{_LEAD}(?P<name>{_NAME})\s+(?:was|has\s+been)\s+(?:appointed|elected|named|promoted)\s+"
        rf"(?:to\s+serve\s+as|as|to\s+the\s+position\s+of|to)\s+{_TITLES}{_OF}{_WHEN}"
    ),
)
_ENDS = (
    _compiled(
        rf"{_LEAD}(?P<name>{_NAME})\s+(?:resigned|retired|stepped\s+down)\s+(?:from\s+(?:his|her)\s+(?:position|role)\s+)?as"
        rf"\s+{_TITLES}{_OF}{_WHEN}"
    ),
    _compiled(
        rf"{_LEAD}(?P<name>{_NAME})\s+(?:notified|informed)\s+the\s+(?:Company|Board)\s+of\s+(?:his|her)\s+"
        rf"(?:resignation|retirement|decision\s+to\s+(?:resign|retire))\s+as\s+{_TITLES}{_OF}{_WHEN}"
    ),
    _compiled(
        rf"{_LEAD}[Tt]he\s+employment\s+of\s+(?P<name>{_NAME})\s+as\s+{_TITLES}{_OF}\s+(?:ended|was\s+terminated)"
        rf"(?:\s+(?:on|effective|as\s+of)\s+(?P<effective>{DATE}))?"
    ),
)
_SIGNED = _compiled(
    rf"/s/[ \t]*(?P<signed>{_NAME})[ \t]*\n+[ \t]*(?:Name:[ \t]*)?(?P<name>{_NAME})[ \t]*"
    r"(?:\n+[ \t]*(?:Title:[ \t]*)?|,[ \t]*)"
    rf"(?P<titles>{_TITLE}(?:(?:,\s+and|,|\s+and)\s+{_TITLE})*)[ \t]*(?:\n+[ \t]*Dated?:?[ \t]+(?P<date>{DATE}))?"
)
_AUDITOR = (
    r"(?:its|the\s+Company[’']s|our)\s+independent\s+"
    r"(?:registered\s+public\s+accounting\s+firm|(?:public\s+)?accountants?|auditors?)"
)
_DISMISSED = _compiled(rf"{_LEAD}[Tt]he\s+Company\s+dismissed\s+(?P<firm>{_COMPANY})\s+as\s+{_AUDITOR}{_WHEN}")
_ENGAGED = _compiled(rf"{_LEAD}[Tt]he\s+Company\s+engaged\s+(?P<firm>{_COMPANY})\s+as\s+{_AUDITOR}{_WHEN}")
_BOUGHT = _compiled(
    rf"{_LEAD}[Tt]he\s+Company\s+completed\s+(?:its|the)\s+(?:previously\s+announced\s+)?acquisition\s+of\s+"
    rf"(?:all\s+of\s+the\s+outstanding\s+(?:stock|shares)\s+of\s+)?(?P<object>{_COMPANY})"
    r"(?:[^.$]{0,80}?(?P<price>\$\d[\d,]*(?:\.\d+)?(?:\s+(?:million|billion))?))?"
)
_AGREED = _compiled(
    rf"{_LEAD}[Tt]he\s+Company\s+entered\s+into\s+(?:an?|the)\s+(?P<detail>[A-Z]\w*(?:\s+(?:[A-Z]\w*|of|and)){{0,5}}?\s?Agreement"
    rf"(?:\s+and\s+Plan\s+of\s+Merger)?)\s+with\s+(?P<object>{_COMPANY})(?:,?\s+dated\s+(?:as\s+of\s+)?(?P<effective>{DATE}))?"
)
_ONE_TITLE = _compiled(_TITLE)
_VERBS = re.compile(
    r"appointed|elected|named|promoted|resigned|retired|stepped|notified|informed|employment|dismissed|engaged|completed"
    r"|entered|/s/"
)
_BEFORE, _AFTER = 300, 600
_NO_NAMES = frozenset(("The", "On", "Mr", "Ms", "Mrs", "Dr", "Item", "Board", "Company", "In", "As", "At"))


def sentences(builder: FactBuilder, document: Document) -> Iterator[Fact]:
    """Yield what the prose of a document says."""
    for begin, end in _windows(document.text):
        yield from _in_window(builder, document, begin, end)


def _windows(text: str) -> Iterator[tuple[int, int]]:
    """Yield the parts of a text that have a verb of the rules: the rest of a long report need not be looked at."""
    begin = end = 0
    for verb in _VERBS.finditer(text):
        if verb.start() - _BEFORE > end:
            if end:
                yield begin, end
            begin = max(verb.start() - _BEFORE, 0)
        end = verb.end() + _AFTER
    if end:
        yield begin, end


def _in_window(builder: FactBuilder, document: Document, begin: int, end: int) -> Iterator[Fact]:
    text, at = document.text, document.start
    for action, patterns in (("begins", _BEGINS), ("ends", _ENDS)):
        for pattern in patterns:
            for match in pattern.finditer(text, begin, end):
                yield from _role(builder, document, match, action)
    for match in _SIGNED.finditer(text, begin, end):
        if "".join(match["signed"].split()) == "".join(match["name"].split()):
            yield from _role(builder, document, match, "holds")
    for pattern, bound in ((_DISMISSED, "valid_to"), (_ENGAGED, "valid_from")):
        for match in pattern.finditer(text, begin, end):
            yield from _auditor(builder, document, match, bound)
    for match in _BOUGHT.finditer(text, begin, end):
        yield from _deal(builder, document, match, "acquired", price=number_group(match, "price", at))
    for match in _AGREED.finditer(text, begin, end):
        yield from _deal(builder, document, match, "agreement", detail=spaced(match, "detail", at))


def _role(builder: FactBuilder, document: Document, match: re.Match[str], action: str) -> Iterator[Fact]:
    name = spaced(match, "name", document.start)
    if name is None or str(name.value).split()[0] in _NO_NAMES:
        return
    company = builder.company_name()
    if company is None:
        return
    yield from builder.fact("person", name=name, cik=None)
    days: dict[str, Piece | None] = {"valid_from": None, "valid_to": None, "as_of": None}
    if action == "holds":
        days["as_of"] = day_group(match, "date", document.start) or day(builder.read.filed)
    else:
        days["valid_from" if action == "begins" else "valid_to"] = _when(builder, document, match)
    for title in _ONE_TITLE.finditer(match["titles"]):
        begin = document.start + match.start("titles") + title.start()
        piece = Piece(" ".join(title[0].split()), begin, begin + len(title[0]))
        yield from builder.fact("role", {"action": action}, person=name, company=company, title=piece, **days)


def _auditor(builder: FactBuilder, document: Document, match: re.Match[str], end: str) -> Iterator[Fact]:
    firm, company = spaced(match, "firm", document.start), builder.company_name()
    if firm is None or company is None:
        return
    yield from builder.fact("company", {"part": "auditor"}, name=firm, cik=None, sic=None, state=None)
    days: dict[str, Piece | None] = {"valid_from": None, "valid_to": None, end: _when(builder, document, match)}
    yield from relation(builder, "auditor", subject=firm, object=company, **days)


def _deal(
    builder: FactBuilder, document: Document, match: re.Match[str], kind: str, **more: Piece | None
) -> Iterator[Fact]:
    other, company = spaced(match, "object", document.start), builder.company_name()
    if other is None or company is None:
        return
    yield from builder.fact("company", {"part": "counterparty"}, name=other, cik=None, sic=None, state=None)
    when = _when(builder, document, match)
    yield from relation(builder, kind, subject=company, object=other, valid_from=when, **more)


def _when(builder: FactBuilder, document: Document, match: re.Match[str]) -> Piece | None:
    """Return the day on which something takes effect: as it says, else the day of the sentence, else of the report."""
    groups = match.re.groupindex
    for group in ("effective", "lead"):
        if group in groups and (found := day_group(match, group, document.start)) is not None:
            return found
    return day(builder.read.period)


def relation(builder: FactBuilder, kind: str, **pieces: Piece | None) -> Iterator[Fact]:
    """Yield a relation; what is not given is None."""
    names = ("subject", "object", "detail", "shares", "percent", "price", "valid_from", "valid_to")
    yield from builder.fact("relation", {"kind": kind}, **{name: pieces.get(name) for name in names})
