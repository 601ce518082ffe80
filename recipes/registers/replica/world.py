"""What the registers of the replica have in common: chance that is the same in every run, and pages."""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

Record = dict[str, Any]
END = "</body></html>"
BLOCK_PAGE = (
    "<!doctype html><html><head><title>Access check</title></head><body><h1>One moment, please</h1>"
    '<form id="captcha-form"><p>We need to check that you are human.</p></form></body></html>'
)


@dataclass(frozen=True)
class Page:
    """A page as it is sent."""

    body: bytes
    content_type: str = "text/html; charset=utf-8"
    status: int = 200


@dataclass(frozen=True)
class Register:
    """The register of one country. A path has its query; `size` is the number of its products."""

    name: str
    start: Callable[[int], Sequence[str]]
    """The paths to begin with: all pages of a distributed register, the first page of a single one."""
    truth: Callable[[int], Iterator[Record]]
    """The records of a perfect scrape."""
    page: Callable[[str, int], Page | None]
    """The page at a path; None if there is none."""


def chance(*names: object) -> random.Random:
    """Return a source of chance that depends on these names only."""
    seed = hashlib.sha256("\n".join(map(str, names)).encode()).digest()
    return random.Random(seed)  # noqa: S311 (the same in every run)


def second_layout(path: str) -> bool:
    """Return whether the page at a path has the layout that appears for some pages only."""
    return chance("layout", path).random() < 0.35


def html(title: str, content: str, *, charset: str = "utf-8") -> str:
    """Return a whole page around its content."""
    head = f'<meta charset="{charset}"><title>{escape(title)}</title>'
    return f"<!doctype html><html><head>{head}</head><body>{content}{END}"


def maybe(dice: random.Random, value: Any, share: float = 0.88) -> Any:
    """Return the value, or None for the share of values that the register lacks or has malformed."""
    return value if dice.random() < share else None


def written(value: float | None, dice: random.Random, forms: Sequence[Callable[[float], str]]) -> str:
    """Return a price as the register writes it; one that is None is malformed or missing."""
    if value is None:
        return dice.choice(("", "-", "N/A", "n.b.", "?", "12,3.4,5"))
    return dice.choice(forms)(value)


def grouped(value: float, thousands: str, decimal: str) -> str:
    """Return a price with two decimals and the separators of a country."""
    whole, _, rest = f"{value:,.2f}".partition(".")
    return f"{whole.replace(',', thousands)}{decimal}{rest}"
