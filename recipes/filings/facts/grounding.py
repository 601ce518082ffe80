"""Look a value up in the text of a filing. A value that is not in the text has no place, and its fact is dropped."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left
from collections.abc import Iterator
from datetime import date
from difflib import SequenceMatcher

from filings.facts.fact import Ground, Value
from filings.facts.spelling import ANY_DATE, ANY_NUMBER, date_in, number_in

FLOOR = 0.85
"""How similar a piece of the text is at least to a name that it is taken for."""
_LONGEST = 300
_MOST_WINDOWS = 400
_SAME = str.maketrans({"‘": "'", "’": "'", "“": '"', "”": '"', "–": "-", "—": "-", "\u00a0": " "})


class Grounding:
    """The text of one filing, prepared for looking values up."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._folded, self._places = _fold_with_places(text)

    def at(self, start: int, end: int, value: Value) -> Ground | None:
        """Return the ground of a value that was read there; None if the text there is not that value."""
        piece = self.text[start:end]
        if value is None or not piece:
            return None
        if piece == value:
            return Ground(start, end)
        return Ground(start, end, "folded") if _same(piece, value) else None

    def find(self, value: Value, near: int = 0) -> Ground | None:
        """Return the place of a value: exact before folded before similar; of several, the first from `near` on."""
        if value is None or value == "":
            return None
        if not isinstance(value, str):
            return self._find_number(float(value), near)
        if len(value) > _LONGEST:
            return None
        day = date_in(value)
        if day is not None:
            return self._find_day(value, day, near)
        return self._find_exact(value, near) or self._find_folded(value, near) or self._find_similar(value)

    def _find_exact(self, value: str, near: int) -> Ground | None:
        for at in (self._word_at(self.text, value, near), self._word_at(self.text, value, 0)):
            if at >= 0:
                return Ground(at, at + len(value))
        return None

    def _find_folded(self, value: str, near: int) -> Ground | None:
        folded = fold(value)
        if not folded:
            return None
        first = _first_from(self._places, near)
        for begin in (first, 0):
            at = self._word_at(self._folded, folded, begin)
            if at >= 0:
                return Ground(self._places[at], self._places[at + len(folded) - 1] + 1, "folded")
        return None

    def _find_similar(self, value: str) -> Ground | None:
        """Compare pieces of the text that share a word with the value, and have as many words."""
        wanted = fold(value)
        words = wanted.split()
        # A number that is almost right is wrong.
        if len(wanted) < 6 or any(any(sign.isdigit() for sign in word) for word in words):
            return None
        best: tuple[float, int, int] | None = None
        for begin, end in self._windows(words):
            piece = self._folded[begin:end]
            score = SequenceMatcher(None, wanted, piece, autojunk=False).ratio()
            if score >= FLOOR and (best is None or score > best[0]):
                best = (score, begin, end)
        if best is None:
            return None
        score, begin, end = best
        return Ground(self._places[begin], self._places[end - 1] + 1, "fuzzy", round(score, 3))

    def _windows(self, words: list[str]) -> Iterator[tuple[int, int]]:
        made = 0
        for number, word in enumerate(words):
            if len(word) < 3:
                continue
            for found in re.finditer(rf"(?<!\w){re.escape(word)}(?!\w)", self._folded):
                begin, end = found.start(), found.end()
                for _ in range(number):
                    begin = self._folded.rfind(" ", 0, max(begin - 1, 0)) + 1
                for _ in range(len(words) - number - 1):
                    following = self._folded.find(" ", end + 1)
                    end = len(self._folded) if following < 0 else following
                yield begin, end
                made += 1
                if made >= _MOST_WINDOWS:
                    return

    def _find_day(self, value: str, day: date, near: int) -> Ground | None:
        for begin in dict.fromkeys((near, 0)):
            for found in ANY_DATE.finditer(self.text, begin):
                if date_in(found[0]) == day:
                    return Ground(found.start(), found.end(), "exact" if found[0] == value else "folded")
        return None

    def _find_number(self, value: float, near: int) -> Ground | None:
        for begin in dict.fromkeys((near, 0)):
            for found in ANY_NUMBER.finditer(self.text, begin):
                if number_in(found[0]) == value:
                    return Ground(found.start(), found.end(), "folded")
        return None

    @staticmethod
    def _word_at(text: str, value: str, begin: int) -> int:
        """Return where the value is between other words, or -1. `Ann` is not in `Annual`."""
        at = text.find(value, begin)
        while at >= 0:
            before, after = text[at - 1 : at], text[at + len(value) : at + len(value) + 1]
            inside = (before.isalnum() and value[0].isalnum()) or (after.isalnum() and value[-1].isalnum())
            if not inside:
                return at
            at = text.find(value, at + 1)
        return -1


def fold(text: str) -> str:
    """Return the text in one case, with single spaces, plain quotes and dashes."""
    return " ".join(unicodedata.normalize("NFKC", text.translate(_SAME)).casefold().split())


def _same(piece: str, value: Value) -> bool:
    if isinstance(value, int | float):
        return number_in(piece) == float(value)
    if value is None:
        return False
    day = date_in(value)
    return (day is not None and date_in(piece) == day) or fold(piece) == fold(value)


def _fold_with_places(text: str) -> tuple[str, list[int]]:
    """Return the folded text, and for each of its characters the place in the text."""
    signs: list[str] = []
    places: list[int] = []
    space = True
    for place, sign in enumerate(text):
        if sign.isspace() or sign == "\u00a0":
            if not space:
                signs.append(" ")
                places.append(place)
                space = True
            continue
        plain = sign if sign.isascii() else unicodedata.normalize("NFKC", sign.translate(_SAME))
        for each in plain.casefold():
            signs.append(each)
            places.append(place)
        space = False
    return "".join(signs), places


def _first_from(places: list[int], near: int) -> int:
    return bisect_left(places, near)
