"""A table as CSV: UTF-8, commas, a header, lines that end with a line feed.

A missing value is an empty cell; an empty text is two quotes. A text that a spreadsheet would read as a formula gets an
apostrophe in front, so that text from a web page is never executed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, BinaryIO

from longshore.runs.export.columns import ExportTable

_FORMULA = frozenset("=+-@\t\r\n＝＋－＠")
_NUMBERS = re.compile(r"[+\-][\d .,()/\-]*\Z", re.ASCII)
"""A negative number, a telephone number or a date: harmless in a spreadsheet."""


def write_csv(file: BinaryIO, table: ExportTable, rows: Iterable[list[Any]]) -> None:
    """Write the header and all rows."""
    file.write(_line([column.name for column in table.columns]))
    file.writelines(_line(row) for row in rows)


def _line(values: list[Any]) -> bytes:
    return (",".join(map(_text, values)) + "\n").encode()


def _text(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return repr(value)
    text = f"'{value}" if value[:1] in _FORMULA and not _NUMBERS.match(value) else value
    return '"' + text.replace('"', '""') + '"' if _must_be_quoted(text) else text


def _must_be_quoted(text: str) -> bool:
    # No regular expression: these tests are faster, and an export makes millions of them.
    if not text or "," in text or '"' in text or "\n" in text or "\r" in text:
        return True
    return text[0].isspace() or text[-1].isspace()
