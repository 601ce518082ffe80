"""Values: from what a person wrote to what a setting holds, and back to text that may be shown."""

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
    """A duration that is drawn anew each time, in seconds: from `low` to `high`, evenly."""

    low: float
    high: float

    def draw(self) -> float:
        """A duration for now."""
        return random.uniform(self.low, self.high)  # noqa: S311  no secret hangs on it

    def __str__(self) -> str:
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g}-{self.high:g}"


def show(value: Any) -> str:
    """A value as text that is safe to show: passwords in URLs masked."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else mask_url(str(value))


def parsed(kind: type, raw: Any) -> Any:
    """The value in its type; `ValueError` where it is not one. TOML and the command line give typed values."""
    if kind is bool:
        text = str(raw).strip().lower()
        if text not in YES | NO:
            raise ValueError
        return text in YES
    if isinstance(raw, bool | list | dict):
        raise ValueError  # noqa: TRY004 - the caller turns every misfit into one message
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
