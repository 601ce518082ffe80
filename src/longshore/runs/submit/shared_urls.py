"""Find jobs of a source that share a URL and differ in the rest, before anything is submitted.

A job with a URL is known by that URL alone unless an identity is declared, so all but the first of them would be left
out. The source is read as a stream; of each URL only a number is kept, 12 to 48 bytes a row and 128 MB at most. Only if
a number occurs twice, the source is read again, for those URLs alone. Beyond about eleven million rows, new URLs are
not remembered; jobs that are left out because of them are counted when they are submitted.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import msgspec

from longshore.errors import InputFileError
from longshore.runs.sources import Source
from longshore.runs.submit.input_files import InputEntry
from longshore.stored import JsonObject
from longshore.url import canonical_url, mask_url
from longshore.wrappers.differing_duplicates import differing_fields

Identities = Mapping[str, tuple[str, ...]]
"""The declared payload fields that make jobs different, by kind."""
NOT_DECLARED: Identities = MappingProxyType({})
Fix = Callable[[str, Sequence[str]], str]
"""Returns how to declare what makes the jobs of a kind different, given the fields that differ and `url`."""
_FIRST_SIZE, _LARGEST_SIZE = 2**16, 2**24
"""Places of a table of numbers, at the beginning and at most; a place is 8 bytes."""
_EXAMPLES = 5


class _Numbers:
    """A set of 64-bit numbers in a third of the memory: an array with open addressing."""

    def __init__(self) -> None:
        self._table = array("q", bytes(8 * _FIRST_SIZE))
        self._mask = _FIRST_SIZE - 1
        self._room = _FIRST_SIZE * 2 // 3

    def add(self, number: int) -> bool:
        """Add a number; return False if it was there before. A full table of the largest size adds nothing."""
        number = number or 1  # 0 is an empty place
        table, mask = self._table, self._mask
        place = number & mask
        while (there := table[place]) != number:
            if not there:
                if self._room:
                    table[place] = number
                    self._room -= 1
                    if not self._room and len(table) < _LARGEST_SIZE:
                        self._grow()
                return True
            place = (place + 1) & mask
        return False

    def _grow(self) -> None:
        before, size = self._table, 4 * len(self._table)
        self._table, self._mask, self._room = array("q", bytes(8 * size)), size - 1, size * 2 // 3
        for number in before:
            if number:
                self.add(number)


def by_option(_: str, fields: Sequence[str]) -> str:
    """Return the fix for a command that takes `--identity`."""
    return (
        f"If they are different jobs, name the fields that count: --identity {','.join(fields)}. To submit only the "
        "first of each: --identity url."
    )


def by_handler(kind: str, fields: Sequence[str]) -> str:
    """Return the fix for a command that reads the handler file."""
    names = ", ".join(f'"{field}"' for field in fields)
    return (
        f'If they are different jobs, declare it in the handler file: @handler("{kind}", identity=({names})). To '
        'submit only the first of each: identity=("url",).'
    )


class _Conflict(NamedTuple):
    row: int
    first: int
    """The row that had the URL first."""


class SharedUrls:
    """The URLs of a source. Call `read`, then `refuse`."""

    def __init__(self, source: Source, kind: str, identities: Identities) -> None:
        """`kind` is that of entries that name none."""
        self._source = source
        self._kind = kind
        self._identities = identities
        self._suspects: set[int] = set()

    def read(self) -> int:
        """Read the source, mark its URLs, and return the number of its jobs. Raise what reading it raises."""
        numbers, suspects, name_of = _Numbers(), self._suspects, self._name
        number = 0
        for number, entry in enumerate(self._source.entries(), start=1):  # noqa: B007 (counts them)
            if len(entry.payload) > 1 and (name := name_of(entry)) is not None and not numbers.add(name):
                suspects.add(name)
        return number

    def refuse(self, fix: Fix) -> None:
        """Raise `InputFileError` if two jobs share a URL and differ in the rest."""
        if not self._suspects:
            return
        number, conflicts = self._conflicts()
        if not conflicts:
            return
        fields, url = self._compared(conflicts)
        if not fields:
            return
        by_first: dict[int, list[int]] = {}
        for conflict in conflicts:
            by_first.setdefault(conflict.first, []).append(conflict.row)
        first, rows = next(iter(by_first.items()))
        shown = ", ".join(f"{row:,}" for row in rows)
        more = f" and {number - len(rows):,} more" if number > len(rows) else ""
        jobs = f"Job {shown} shares" if number == 1 else f"Jobs {shown}{more} share"
        raise InputFileError(
            f"{self._source.name}: {jobs} a URL with an earlier job (job {first:,}: {mask_url(url)}) and "
            f"{'differs' if number == 1 else 'differ'} in {', '.join(fields)}. By the URL alone they are one job, and "
            f"only the first would be submitted. {fix(self._kind, ['url', *fields])}"
        )

    def _name(self, entry: InputEntry) -> int | None:
        """Return a number for kind and URL; None for an entry whose key does not come from its URL alone."""
        url, kind = entry.payload.get("url"), entry.kind or self._kind
        if entry.key is not None or not isinstance(url, str) or kind in self._identities:
            return None
        return hash((kind, canonical_url(url)))

    def _conflicts(self) -> tuple[int, list[_Conflict]]:
        """Return how many rows differ from the first with their URL, and the first of them."""
        seen: dict[int, int] = {}
        number, conflicts = 0, list[_Conflict]()
        for row, name, payload in self._rows():
            # One number for both, because there may be hundreds of thousands.
            content = hash(msgspec.json.encode({**payload, "url": ""}, order="sorted")) & 0xFFFFFFFFFFFFFFFF
            first = seen.setdefault(name, row << 64 | content)
            if first & 0xFFFFFFFFFFFFFFFF != content:
                number += 1
                if len(conflicts) < _EXAMPLES:
                    conflicts.append(_Conflict(row, first >> 64))
        return number, conflicts

    def _compared(self, conflicts: list[_Conflict]) -> tuple[list[str], str]:
        """Return the fields in which these rows differ, and the URL of the first conflict."""
        wanted = {row for conflict in conflicts for row in conflict}
        last = max(wanted)
        payloads: dict[int, JsonObject] = {}
        for row, _, payload in self._rows():
            if row in wanted:
                payloads[row] = payload
            if row >= last:
                break
        fields: dict[str, None] = {}
        for conflict in conflicts:
            if conflict.row in payloads and conflict.first in payloads:
                fields |= dict.fromkeys(differing_fields(payloads[conflict.row], payloads[conflict.first]))
        return list(fields), str(payloads.get(conflicts[0].first, {}).get("url", ""))

    def _rows(self) -> Iterator[tuple[int, int, JsonObject]]:
        """Yield number, name and payload of every entry that may share its URL with another."""
        for row, entry in enumerate(self._source.entries(), start=1):
            name = self._name(entry) if len(entry.payload) > 1 else None
            if name is not None and name in self._suspects:
                yield row, name, entry.payload
