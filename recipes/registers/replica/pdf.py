"""Writes small PDF files with text at given places: PDF 1.4, Helvetica with its usual encoding, compressed pages."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Text:
    """A line of text, from the lower left corner of the page in points."""

    x: float
    y: float
    text: str
    size: float = 9
    kerned: bool = False
    """Whether its words are placed piece by piece, as typesetting programs do."""


def pdf(pages: Sequence[Sequence[Text]]) -> bytes:
    """Return a file with these pages, on Letter paper in landscape."""
    objects: list[bytes] = []

    def add(content: bytes) -> int:
        objects.append(content)
        return len(objects)

    font = add(b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>")
    # The number of the tree of pages is known in advance: it follows a page and a content for each page.
    tree = font + 2 * len(pages) + 1
    kids = []
    for page in pages:
        drawn = zlib.compress(b"\n".join(map(_drawn, page)))
        content = add(b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(drawn), drawn))
        kids.append(
            add(
                b"<< /Type /Page /Parent %d 0 R /MediaBox [0 0 792 612] /Contents %d 0 R"
                b" /Resources << /Font << /F1 %d 0 R >> >> >>" % (tree, content, font)
            )
        )
    listed = b" ".join(b"%d 0 R" % kid for kid in kids)
    add(b"<< /Type /Pages /Kids [%s] /Count %d >>" % (listed, len(kids)))
    catalog = add(b"<< /Type /Catalog /Pages %d 0 R >>" % tree)
    return _file(objects, catalog)


def _file(objects: Sequence[bytes], catalog: int) -> bytes:
    made, places = bytearray(b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n"), []
    for number, content in enumerate(objects, 1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    start = len(made)
    made += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    made += b"".join(b"%010d 00000 n \n" % place for place in places)
    made += b"trailer\n<< /Size %d /Root %d 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, catalog, start)
    return bytes(made)


def _drawn(text: Text) -> bytes:
    placed = b"BT /F1 %.1f Tf %.2f %.2f Td " % (text.size, text.x, text.y)
    if not text.kerned:
        return placed + _string(text.text) + b" Tj ET"
    # A small shift after every third letter, by thousandths of the size.
    pieces = [text.text[at : at + 3] for at in range(0, len(text.text), 3)]
    return placed + b"[" + b" 18 ".join(map(_string, pieces)) + b"] TJ ET"


def _string(text: str) -> bytes:
    escaped = text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
    return b"(" + escaped.encode("cp1252") + b")"
