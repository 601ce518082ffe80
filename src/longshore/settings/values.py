"""Values of settings: parse a user's text, and format a value as text that is safe to show."""

from __future__ import annotations

import math
import random
import re
from dataclasses import dataclass
from typing import Any

from longshore.url import mask_url

YES = frozenset({"1", "true", "yes", "on"})
NO = frozenset({"0", "false", "no", "off"})

_NUMBER = r"\d+(?:\.\d+)?"
_SPAN = re.compile(rf"({_NUMBER})(?:\s*[-–]\s*({_NUMBER}))?\Z")


@dataclass(frozen=True)
class SecondsRange:
    """A random duration in seconds, uniform between `low` and `high`."""

    low: float
    high: float

    @property
    def mean(self) -> float:
        """The average duration."""
        return (self.low + self.high) / 2

    def draw(self) -> float:
        """Return a random duration of this range."""
        return random.uniform(self.low, self.high)  # noqa: S311  not used for security

    def __str__(self) -> str:
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g}-{self.high:g}"


def show(value: Any) -> str:
    """Return a value as text that is safe to show: passwords in URLs are masked."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else mask_url(str(value))


def parsed(kind: type, raw: Any) -> Any:
    """Return the value in its type; raise `ValueError` if invalid. TOML and the command line have typed values."""
    if kind is bool:
        text = str(raw).strip().lower()
        if text not in YES | NO:
            raise ValueError
        return text in YES
    if isinstance(raw, bool | list | dict):
        raise ValueError  # noqa: TRY004 - the caller has one message for all invalid values
    if kind is str:
        if not isinstance(raw, str) or not raw.strip():
            raise ValueError
        return raw.strip()
    if kind is int:
        if isinstance(raw, float):
            raise ValueError
        return int(raw)
    if kind is SecondsRange:
        return _span(str(raw))
    number = float(raw)
    if not math.isfinite(number):
        raise ValueError
    return number


def _span(text: str) -> SecondsRange:
    found = _SPAN.match(text.strip())
    if found is None:
        raise ValueError
    low = float(found[1])
    high = low if found[2] is None else float(found[2])
    if high < low:
        raise ValueError
    return SecondsRange(low, high)
