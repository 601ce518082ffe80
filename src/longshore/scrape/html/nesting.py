"""How deep the elements of a page nest at the most, and how often the parser repeats some, judged by its tags alone.

A parser forgives: it ignores closing tags in comments, scripts and quotes, and those that would close across a border.
A page can use that to nest much deeper than its tags seem to. So a closing tag counts here if the parser obeys it, and
one in text that may be a quote or a script does not. The figures are a little too high for careless pages; for random
tags they are no less than half of the truth (a test compares them).
"""

from __future__ import annotations

import math
import re
from collections import Counter

import msgspec

# Comments (also `<!-->`), declarations, closing tags without a name, and tags up to the first `>`.
_TOKEN = re.compile(
    r"<!--(?:-?>|.*?(?:--!?>|\Z))|<!\[CDATA\[|<[!?][^>]*|</(?![a-zA-Z>])[^>]*|<(/?)([a-zA-Z][^\s/>]*)([^>]*)", re.DOTALL
)
_CDATA = "<![CDATA["
_QUOTE = re.compile(r"[\"']")
_LONGEST_COMPARED = 200
_SAME = 3
"""Formatting elements with the same attributes that the parser repeats, at the most."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


FORMATTING = _words("b big code em font i s small strike strong tt u")
"""If one of these is left open, the parser repeats it in every later paragraph and cell."""
_WITHOUT_CONTENT = _words(
    "area base basefont bgsound body br col embed frame head hr html img input keygen link meta param source track wbr"
)
_RAW = _words("iframe noembed noframes script style textarea title xmp")
"""Their content is text."""
_MODES = _words("frameset math select svg")
"""Inside these, the parser has rules of its own."""
_BORDERS = _words("applet caption frameset marquee math object select svg table td template th")
"""No closing tag of an element outside closes one of these; the tags of tables do."""
_TABLE = _words("caption colgroup table tbody td tfoot th thead tr")
_IN_TABLE = _TABLE - {"table"}
_TABLE_BORDERS = _words("frameset math select svg table template")
_BLOCKS = _words(
    """address article aside blockquote center dd details dialog dir div dl dt fieldset figcaption figure footer
    h1 h2 h3 h4 h5 h6 header hgroup hr li listing main menu nav ol p pre search section summary ul xmp"""
)
_SPECIAL = _BORDERS | _TABLE | _BLOCKS | _RAW | _words("button form noscript plaintext")
"""Closing tags of other elements do not close across these."""
_MARKED = _words("applet caption marquee object table tbody td template tfoot th thead tr")
"""Formatting elements that were left open in these do not go on after them."""
_OTHER_RULES = _RAW | _words("math noscript plaintext svg")
_ITEMS = {"p": _words("button"), "li": _words("button ol ul"), "dd": _words("button dl"), "dt": _words("button dl")}
"""Further borders of their closing tags."""
_CLOSED_BY = {
    **dict.fromkeys(_BLOCKS, _words("p")),
    "li": _words("li p"),
    "dd": _words("dd dt p"),
    "dt": _words("dd dt p"),
    "td": _words("td th"),
    "th": _words("td th"),
    "tr": _words("td th tr"),
    "tbody": _words("tbody td tfoot th thead tr"),
    "tfoot": _words("tbody td tfoot th thead tr"),
    "option": _words("option"),
    "optgroup": _words("option"),
}
"""The elements that an opening tag closes if they are the innermost ones."""


class Nesting(msgspec.Struct):
    """The upper bounds for a page."""

    deepest: int = 0
    repeated: int = 0
    """Elements that the parser adds because formatting elements were left open."""


def nesting(html: str, deep_enough: float = math.inf) -> Nesting:
    """Return the upper bounds for a page, in time that is linear in its length.

    Stop reading at a depth of `deep_enough`.
    """
    return _Reader(html).read(deep_enough)


class _Reader:
    def __init__(self, html: str) -> None:
        self._html = html
        self._found = Nesting()
        self._open: list[tuple[str, str]] = []
        """The names of the open elements, and of formatting elements their attributes, to compare them."""
        self._count = Counter[str]()
        self._modes = 0
        self._same = Counter[str]()
        self._left_open = 0
        self._cut_off = Counter[str]()
        """Formatting elements, by name, that were closed with the element around them."""
        self._hidden_until = 0
        """Up to here, a closing tag may be text."""
        self._steps = 0

    def read(self, deep_enough: float) -> Nesting:
        html, found, at = self._html, self._found, 0
        tags = html.count("<")
        while (token := _TOKEN.search(html, at)) is not None:
            at = token.end()
            closing, name, rest = token.groups()
            hidden = token.start() < self._hidden_until
            if name is None:
                if hidden:
                    at = token.start() + 1  # it may be text, and what it would skip may not
                elif token[0] == _CDATA:
                    self._hide_until(html.find("]]>", at))
                continue
            name = name.lower()
            if closing:
                if not hidden:
                    self._close(name)
            else:
                if name not in FORMATTING:
                    found.repeated += self._left_open
                self._begin(name, rest, at)
                if name in _RAW and not hidden and not self._modes:
                    at = self._end_of_text(name, at)
                found.deepest = max(found.deepest, len(self._open) + self._left_open)
            if rest.count('"') % 2 or rest.count("'") % 2:
                # A `>` in quotes does not end a tag.
                quote = _QUOTE.search(html, at)
                self._hide_until(-1 if quote is None else quote.end())
            if found.deepest >= deep_enough:
                break
            if self._steps > 1_000_000 + 4 * tags:
                found.deepest = tags
                break
        return found

    def _hide_until(self, end: int) -> None:
        self._hidden_until = max(self._hidden_until, len(self._html) if end < 0 else end)

    def _begin(self, name: str, rest: str, at: int) -> None:
        if not self._modes:
            closed = _CLOSED_BY.get(name, ())
            if "p" in closed:
                self._end_paragraph()
            while self._open and self._open[-1][0] in closed:
                self._pop()
            if name in _WITHOUT_CONTENT or (name in _IN_TABLE and not self._count["table"] + self._count["template"]):
                return
        compared = ""
        if name in FORMATTING:
            # A longer one may differ in its end.
            long = len(rest) >= _LONGEST_COMPARED
            compared = f"{name} {len(self._open)} {at}" if long else f"{name} {rest}"
            self._same[compared] += 1
            self._left_open += self._same[compared] <= _SAME
        self._open.append((name, compared))
        self._count[name] += 1
        self._modes += name in _MODES

    def _end_paragraph(self) -> None:
        """Close a paragraph if only formatting was left open in it. It goes on in the next one."""
        number = len(self._open) - 1
        while number >= 0 and self._open[number][0] in FORMATTING:
            number -= 1
            self._steps += 1
        if number >= 0 and self._open[number][0] == "p":
            while len(self._open) > number:
                self._pop()

    def _end_of_text(self, name: str, at: int) -> int:
        """Return where the closing tag of an element begins that holds only text."""
        end = re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
        found = end.search(self._html, at)
        if found is None:
            return len(self._html)
        comment = self._html.rfind("<!--", at, found.start()) if name == "script" else -1
        if comment >= 0 and self._html.find("-->", comment, found.start()) < 0:
            # In such a comment, the tag may not end the script.
            after = self._html.find("-->", comment)
            last = None if after < 0 else end.search(self._html, after)
            self._hide_until(-1 if last is None else last.start())
        return found.start()

    def _close(self, name: str) -> None:
        if not self._count[name]:
            if self._cut_off[name]:
                self._cut_off[name] -= 1
                self._left_open -= 1
            return
        if name in _TABLE:
            borders = _TABLE_BORDERS
        elif name in _SPECIAL - _OTHER_RULES:
            borders = _BORDERS | _ITEMS.get(name, frozenset())
        else:
            borders = _SPECIAL
        for number in range(len(self._open) - 1, -1, -1):
            each = self._open[number][0]
            self._steps += 1
            if each == name:
                break
            # A form that is closed leaves the elements within it open.
            if each in borders or name == "form":
                return
        goes_on = name not in _MARKED
        while len(self._open) > number + 1:
            each = self._open[-1][0]
            if self._pop() and goes_on:
                # It goes on after this closing tag, however many there are of it.
                self._cut_off[each] += 1
                self._left_open += 1
        compared = self._pop()
        if compared:
            # Those that were popped before it are not closed, but repeated.
            self._same[compared] -= 1
            self._left_open -= self._same[compared] < _SAME

    def _pop(self) -> str:
        name, compared = self._open.pop()
        self._count[name] -= 1
        self._modes -= name in _MODES
        return compared
