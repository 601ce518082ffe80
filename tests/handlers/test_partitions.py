"""The partitions a handler file names."""

from __future__ import annotations

from pathlib import Path

import pytest

from longshore.errors import HandlerFileError
from longshore.handlers.load import load_handlers
from longshore.handlers.partition_names import partitions_in

HANDLER = '\nfrom longshore import handler\n\n@handler("page")\nasync def page(job):\n    return {}\n'


def named(folder: Path, line: str) -> tuple[str, ...]:
    file = folder / "pages.py"
    file.write_text(line + HANDLER)
    load_handlers(file)
    return partitions_in(file)


@pytest.mark.parametrize("line", ['PARTITIONS = ["CA", "TX"]', 'PARTITIONS = {"CA": "California", "TX": "Texas"}'])
def test_a_list_of_names_or_anything_that_yields_them(tmp_path: Path, line: str) -> None:
    assert named(tmp_path, line) == ("CA", "TX")


def test_a_file_need_not_name_any(tmp_path: Path) -> None:
    assert named(tmp_path, "") == ()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('PARTITIONS = "CA,TX"', "not a list of names"),
        ("PARTITIONS = 7", "not a list of names"),
        ('PARTITIONS = ["CA", 7]', "holds 7"),
        ('PARTITIONS = ["CA", "TX", "CA"]', "lists CA more than once"),
    ],
)
def test_what_is_wrong_with_it_is_said(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(HandlerFileError, match=message):
        named(tmp_path, line)
