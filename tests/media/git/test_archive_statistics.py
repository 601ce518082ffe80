"""What the archive's statistics make of its files, ours and others."""

from __future__ import annotations

from typing import cast

import pytest

from longshore.extensions.archive import Month
from longshore.media.git.objects.objects import Objects, TooLargeError
from longshore.media.git.state.archive import months


class Shelf:
    """Objects by their names; a name that is not here is that of a huge one."""

    def __init__(self, **objects: bytes) -> None:
        self._objects = objects

    def read(self, oid: str) -> bytes:
        if oid not in self._objects:
            raise TooLargeError(f"object {oid} is huge")
        return self._objects[oid]


def test_files_are_counted_by_month_oldest_first() -> None:
    shelf = cast("Objects", Shelf(a=b"123", b=b"12", c=b"1"))
    parts = {
        "archive/2026-11/000003-7.jsonl.gz": "a",
        "archive/2026-10/000001-5000.jsonl.gz": "b",
        "archive/2026-11/000002-1.jsonl.gz": "c",
    }
    assert months(parts, shelf) == [
        Month(month="2026-10", jobs=5000, files=1, size=2),
        Month(month="2026-11", jobs=8, files=2, size=4),
    ]


def test_a_file_of_somebody_else_is_not_looked_into() -> None:
    assert months({"archive/readme.txt": "huge", "archive/2026-11/notes.gz": "huge"}, cast("Objects", Shelf())) == []


def test_a_huge_file_under_one_of_our_names_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    [month] = months({"archive/2026-11/000001-5.jsonl.gz": "huge"}, cast("Objects", Shelf()))
    assert month.size == 0
    assert "archive/2026-11/000001-5.jsonl.gz" in caplog.text
