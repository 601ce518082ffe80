"""Elements by CSS selector, in bounded time.

For `A B C`, the library tries every `B` above each `C` and every `A` above each of those: on a page that nests a
thousand `B`, and has no `A`, that takes minutes. If a page is deep enough for that, the parts of the selector are
searched one after another from the left, which visits each element once. Selectors that compare siblings (`~`,
`:nth-child`) are refused on pages that have too many of them beside each other.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

import msgspec
from selectolax.lexbor import LexborHTMLParser, SelectolaxError

from longshore.errors import ProcessingError
from longshore.scrape.html.parse import MOST_STEPS, Element

_FEW_ELEMENTS = 100
"""Up to this number of tags, no selector of a few parts takes long."""
_REMEMBERED = 1_000
_PIECE = re.compile(
    r"""(?P<skipped>\\.|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\[[^\]"']*\]|:nth-[\w-]+\([^()]*\))"""
    r"""|(?P<opening>[(\[])|(?P<closing>[)\]])|(?P<combinator>\s*[>+~,]\s*|\s+)""",
    re.DOTALL,
)
_NTH = re.compile(r":nth-", re.IGNORECASE)
_HAS = re.compile(r":has\(", re.IGNORECASE)


class _Selector(msgspec.Struct, frozen=True):
    """The cost and the parts of a selector."""

    deep: int
    """Times that the library tries all elements above one."""
    wide: int
    """Times that it looks at all siblings of an element."""
    parts: tuple[tuple[str, ...], ...] | None
    """For each selector of a list, the parts between the spaces; None if they cannot be searched one by one."""


def select(tree: LexborHTMLParser, selector: str) -> list[Element]:
    """Return all elements that match a CSS selector.

    Raise `ProcessingError` if it is no selector, or if the page is built to make it take very long.
    """
    try:
        known = _read(selector)
        if known.deep < 2 and not known.wide:
            return tree.css(selector)
        tags = tree.raw_html.count(b"<")
        if tags > _FEW_ELEMENTS:
            if known.wide and _reaches(tree, " + ", _limit(tags, known.wide)):
                raise ProcessingError(
                    f"{selector!r} compares siblings, of which the page has too many: it would take too long.",
                    retryable=False,
                )
            if known.deep > 1 and _reaches(tree, " > ", _limit(tags, known.deep)):
                return _part_by_part(tree, selector, known)
        return tree.css(selector)
    except SelectolaxError as error:
        raise ProcessingError(f"{selector!r} is no CSS selector that we know.", retryable=False) from error


def outermost(elements: Iterable[Element]) -> list[Element]:
    """Return those elements that are not inside another one of them."""
    several = list(elements)
    own = {element.mem_id for element in several}
    inside: dict[int, bool] = {}
    found = []
    for element in several:
        path, node, within = [], element.parent, False
        while node is not None:
            number = node.mem_id
            if number in own or number in inside:
                within = number in own or inside[number]
                break
            path.append(number)
            node = node.parent
        inside.update(dict.fromkeys(path, within))
        if not within:
            found.append(element)
    return found


def _limit(tags: int, power: int) -> int:
    """Return the depth, or the number of siblings, with which a selector takes `MOST_STEPS`."""
    return max(int((MOST_STEPS / tags) ** (1 / power)), 2)


def _reaches(tree: LexborHTMLParser, combinator: str, length: int) -> bool:
    """Return whether the page has this number of elements inside each other, or beside each other."""
    # One without a choice: the library goes straight up, or straight back.
    return tree.css_first(combinator.join(["*"] * length)) is not None


def _part_by_part(tree: LexborHTMLParser, selector: str, known: _Selector) -> list[Element]:
    if known.parts is None:
        raise ProcessingError(
            f"{selector!r} would take too long on this page, whose elements are nested very deep. Use a selector with "
            "fewer spaces.",
            retryable=False,
        )
    matching = set[int]()
    for parts in known.parts:
        matching.update(element.mem_id for element in _descendants(tree, parts))
    last = ", ".join(_last_compound(parts[-1]) for parts in known.parts)
    # In the order of the page, each once.
    return list({element.mem_id: element for element in tree.css(last) if element.mem_id in matching}.values())


def _descendants(tree: LexborHTMLParser, parts: tuple[str, ...]) -> list[Element]:
    """Return the elements that match the last part, inside elements that match the one before, and so on."""
    found = tree.css(parts[0])
    for part in parts[1:]:
        levels = part.count(">")
        found = [
            element
            for root in outermost(found)
            for element in root.css(part)
            if _is_below(element, root.mem_id, levels)
        ]
    return found


def _is_below(element: Element, root: int, levels: int) -> bool:
    """Return whether the element `levels` levels above this one is below the root, too."""
    node: Element | None = element
    for _ in range(levels + 1):
        if node is None or node.mem_id == root:
            return False
        node = node.parent
    return True


def _last_compound(part: str) -> str:
    return re.split(r"[>+~]", part)[-1].strip()


@lru_cache(maxsize=_REMEMBERED)
def _read(selector: str) -> _Selector:
    """Return the parts of a selector. One that is not understood is not divided."""
    lists: list[list[str]] = [[""]]
    deep = most_deep = inside = begun = 0
    divided = True
    text = selector.strip()
    for piece in _PIECE.finditer(text):
        lists[-1][-1] += text[begun : piece.start()]
        begun = piece.end()
        combinator = (piece["combinator"] or "x").strip()
        if piece["opening"]:
            inside += 1
        elif piece["closing"]:
            inside -= 1
        elif piece["combinator"] and inside:
            deep += combinator in ("", "~")
            divided = divided and combinator == ","
        elif combinator == ",":
            most_deep, deep = max(most_deep, deep), 0
            lists.append([""])
            continue
        elif not combinator:
            deep += 1
            lists[-1].append("")
            continue
        lists[-1][-1] += piece.group()
    lists[-1][-1] += text[begun:]
    divided = divided and not re.search(r"\\|/\*|\|\||[\"']", text)
    return _Selector(
        deep=max(most_deep, deep) + len(_HAS.findall(text)),
        wide=text.count("~") + len(_NTH.findall(text)),
        parts=tuple(map(tuple, lists)) if divided else None,
    )
