"""Reads the lists of Quebec: PDF files with a table, whose columns are found by the heads above them."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator

from longshore import ProcessingError
from longshore.scrape.http.client import Response
from registers.readers.values import CutOffError, Fields, decoded, known, price, spaced

_COLUMNS = ("DIN", "Marque de commerce", "Fabricant", "Format", "Coût du format", "Prix unitaire")
_CELL = re.compile(r"\S+(?: \S+)*")
"""A cell: words with single spaces between them."""
_SLACK = 2
"""Characters by which a cell may begin before the head of its column."""
_MOST_PAGES = 2_000
_MOST_BYTES = 20_000_000
"""Bytes of one page's content: reading it takes thirty times as much memory."""


def read_publications(page: Response) -> list[str]:
    """Return the URLs of the lists."""
    page = decoded(page, ("utf-8", "cp1252"), "Médicaments")
    return [url for url in page.links("a", files=True) if url.endswith(".pdf")]


def read_list(page: Response) -> list[Fields]:
    """Return the rows of a list. Raise `CutOffError` if the file has no end, `ProcessingError` if it is no list."""
    if b"%%EOF" not in page.body[-1024:]:
        raise CutOffError(f"{page.url} ends in the middle")
    try:
        # Imported here because only the workers of this register need it.
        from pypdf.errors import PyPdfError
    except ImportError as error:
        raise ProcessingError("pypdf is not installed. Fix: pip install 'longshore[pdf]'", retryable=False) from error
    try:
        return list(_rows(page))
    except PyPdfError as error:
        raise ProcessingError(f"{page.url} is no PDF that can be read: {error}", retryable=False) from error


def _rows(page: Response) -> Iterator[Fields]:
    from pypdf import PdfReader

    reader = PdfReader(io.BytesIO(page.body))
    if len(reader.pages) > _MOST_PAGES:
        raise ProcessingError(f"{page.url} has more than {_MOST_PAGES:,} pages", retryable=False)
    name = generic = ""
    for sheet in reader.pages:
        content = sheet.get_contents()
        if content is not None and len(content.get_data()) > _MOST_BYTES:
            raise ProcessingError(f"{page.url} has a page of more than {_MOST_BYTES:,} bytes", retryable=False)
        heads: list[tuple[int, str]] = []
        # Each line of the page, with its cells about where they are on paper.
        for line in sheet.extract_text(extraction_mode="layout", layout_mode_space_vertically=False).splitlines():
            cells = [(found.start(), found[0]) for found in _CELL.finditer(line)]
            texts = [text for _, text in cells]
            if title := re.search(r"Liste des médicaments (\S+)", line):
                name = title[1]
            elif set(texts) == set(_COLUMNS):
                heads = cells
            elif any(re.fullmatch(r"\d{8}", text) for text in texts):
                yield {"list": name, "generic": generic, **_row(cells, heads, page.url)}
            elif len(cells) == 1 and heads and not re.fullmatch(r"page \d+", texts[0]):
                generic = spaced(texts[0].removesuffix("(suite)"))


def _row(cells: list[tuple[int, str]], heads: list[tuple[int, str]], url: str) -> Fields:
    values = dict.fromkeys(_COLUMNS, "")
    for at, text in cells:
        column = next((name for start, name in reversed(heads) if start <= at + _SLACK), None)
        if column is None or values[column]:
            raise ProcessingError(f"{url}: '{text}' is below no column of its own", retryable=False)
        values[column] = text
    return {
        "din": values["DIN"],
        "brand": values["Marque de commerce"],
        "maker": known(values["Fabricant"]),
        "format": known(values["Format"], "-"),
        "cost": price(values["Coût du format"], comma=True),
        "unit_price": price(values["Prix unitaire"], comma=True),
    }
