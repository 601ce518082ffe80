"""XML as a tree whose values know their place in the text that people read. Malformed XML is read as far as it goes."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z_][\w.:-]*)(?P<rest>[^<>]*)>|<[!?][^<>]*>")
_DEEPEST = 60


@dataclass
class Element:
    """An element: a value, or a container of elements."""

    name: str
    value: str = ""
    start: int = 0
    """Where the line of the element begins in the text."""
    value_at: int = 0
    children: list[Element] = field(default_factory=list)

    def find(self, path: str) -> Element | None:
        """Return the first element with this path of names below, as in `issuer/issuerCik`."""
        found: Element | None = self
        for name in path.split("/"):
            found = next((each for each in found.children if each.name == name), None) if found else None
        return found

    def all(self, name: str) -> Iterator[Element]:
        """Yield every element with this name, at any depth."""
        waiting = list(reversed(self.children))
        while waiting:
            element = waiting.pop()
            if element.name == name:
                yield element
            waiting.extend(reversed(element.children))


def read_xml(source: str, at: int = 0) -> tuple[Element, str, bool]:
    """Return the tree, a text with a line for each element, and whether the XML was well formed.

    `at` is where the text begins in the text of the filing.
    """
    root = Element("")
    open_elements, well_formed, position = [root], True, 0
    for tag in _TAG.finditer(source):
        _add_text(open_elements[-1], source[position : tag.start()])
        position = tag.end()
        name = tag["name"]
        if name is None:
            continue
        if not tag["end"]:
            element = Element(name)
            open_elements[-1].children.append(element)
            if not tag["rest"].endswith("/"):
                if len(open_elements) >= _DEEPEST:
                    return root, _render(root, at), False
                open_elements.append(element)
        elif len(open_elements) > 1 and open_elements[-1].name == name:
            open_elements.pop()
        else:
            well_formed = False
            depth = next((n for n in range(len(open_elements) - 1, 0, -1) if open_elements[n].name == name), None)
            if depth is not None:
                del open_elements[depth:]
    left = source[position:]
    if "<" in left or len(open_elements) > 1:
        well_formed = False
    return root, _render(root, at), well_formed


def _add_text(element: Element, text: str) -> None:
    element.value += text


def _render(root: Element, at: int) -> str:
    lines: list[str] = []
    length = at
    waiting = [(each, 0) for each in reversed(root.children)]
    while waiting:
        element, depth = waiting.pop()
        element.value = "" if element.children else " ".join(html.unescape(element.value).split())
        before = f"{'  ' * depth}{element.name}: "
        line = before + element.value if element.value else before.rstrip(": ")
        element.start, element.value_at = length + 2 * depth, length + len(before)
        lines.append(line)
        length += len(line) + 1
        waiting.extend((each, depth + 1) for each in reversed(element.children))
    return "\n".join(lines)
