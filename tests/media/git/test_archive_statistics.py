"""The statistics of the archive, from its own files and foreign ones."""

from __future__ import annotations

from typing import cast

import pytest

from longshore.extensions.archive import Month
from longshore.media.git.objects.objects import Objects, TooLargeError
from longshore.media.git.state.archive import months


class FakeObjects:
    """Objects by id; every other id is that of a huge object."""

    def __init__(self, **objects: bytes) -> None:
        self._objects = objects

    def read(self, oid: str) -> bytes:
        if oid not in self._objects:
            raise TooLargeError(f"object {oid} is huge")
        return self._objects[oid]


def test_files_are_counted_by_month_oldest_first() -> None:
    objects = cast("Objects", FakeObjects(a=b"123", b=b"12", c=b"1"))
    parts = {
        "archive/2026-11/000003-7.jsonl.gz": "a",
        "archive/2026-10/000001-5000.jsonl.gz": "b",
        "archive/2026-11/000002-1.jsonl.gz": "c",
    }
    assert months(parts, objects) == [
        Month(month="2026-10", jobs=5000, files=1, size=2),
        Month(month="2026-11", jobs=8, files=2, size=4),
    ]


def test_a_foreign_file_is_not_read() -> None:
    assert (
        months({"archive/readme.txt": "huge", "archive/2026-11/notes.gz": "huge"}, cast("Objects", FakeObjects())) == []
    )


def test_a_huge_file_with_the_name_of_an_archive_file_is_logged_and_counts_no_bytes(
    caplog: pytest.LogCaptureFixture,
) -> None:
    [month] = months({"archive/2026-11/000001-5.jsonl.gz": "huge"}, cast("Objects", FakeObjects()))
    assert month.size == 0
    assert "archive/2026-11/000001-5.jsonl.gz" in caplog.text
