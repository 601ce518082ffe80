"""From when to when a person held a role, out of what the filings say. The order of the filings does not matter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Interval:
    """A time in a role. A day that no filing names is empty."""

    title: str
    valid_from: str
    valid_to: str


def intervals(roles: Iterable[Mapping[str, str | None]]) -> list[Interval]:
    """Return the times of one person in one company, from rows with `title action valid_from valid_to`.

    A beginning and the first end after it belong together. An end without a beginning, and a role that is only held,
    have begun on a day that is not known.
    """
    by_title: dict[str, list[Mapping[str, str | None]]] = {}
    for role in roles:
        by_title.setdefault(" ".join(str(role["title"]).casefold().split()), []).append(role)
    found: list[Interval] = []
    for same in by_title.values():
        title = min(str(role["title"]) for role in same)
        found += [Interval(title, begin, end) for begin, end in _pairs(same)]
    return sorted(found)


def _pairs(roles: list[Mapping[str, str | None]]) -> list[tuple[str, str]]:
    begins = sorted({role["valid_from"] or "" for role in roles if role["action"] == "begins"})
    ends = sorted({role["valid_to"] or "" for role in roles if role["action"] == "ends"})
    pairs: list[tuple[str, str]] = []
    for number, begin in enumerate(begins):
        following = begins[number + 1] if number + 1 < len(begins) else None
        end = next((each for each in ends if each >= begin and (following is None or each < following)), "")
        if end:
            ends.remove(end)
        pairs.append((begin, end))
    pairs = [("", end) for end in ends] + pairs
    return pairs or [("", "")]
