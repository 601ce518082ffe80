"""Turn rows into jobs: the columns are the payload; templates give URL, key and partition."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from string import Formatter
from urllib.parse import quote

from longshore.errors import UsageError
from longshore.runs.submit.input_files import InputEntry, check_url
from longshore.url import clean_url


@dataclass(frozen=True)
class Template:
    """Text with column names in braces: `https://a.org/{city}`. A literal brace is written twice."""

    text: str

    def __post_init__(self) -> None:
        try:
            _ = self._parts
        except ValueError as error:
            raise UsageError(
                f"'{self.text}' is not a template: {error}. Write columns as {{name}}, and a literal brace twice."
            ) from error

    @cached_property
    def _parts(self) -> tuple[tuple[str, str | None], ...]:
        parts = []
        for literal, column, layout, conversion in Formatter().parse(self.text):
            if column is not None and (not column or layout or conversion):
                raise ValueError("the braces must contain only the name of a column")
            parts.append((literal, column))
        return tuple(parts)

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the template uses."""
        return tuple(column for _, column in self._parts if column is not None)

    def filled(self, row: Mapping[str, object]) -> str:
        """Return the text with the values of a row. Raise `ValueError` if a value is missing or empty."""
        return "".join(literal + ("" if column is None else _text(row, column)) for literal, column in self._parts)

    def filled_url(self, row: Mapping[str, object]) -> str:
        """Return the text as a URL. Values are percent-encoded, so that `New York` and `A&B` remain one part of it.

        A value at the very beginning of the template contains the scheme and host, and is not encoded.
        """
        pieces: list[str] = []
        for literal, column in self._parts:
            pieces.append(literal)
            if column is not None:
                value = _text(row, column)
                pieces.append(quote(value, safe="") if any(pieces) else value)
        return "".join(pieces)


def _text(row: Mapping[str, object], column: str) -> str:
    if column not in row:
        near = difflib.get_close_matches(column, row, n=1)
        hint = f"Did you mean {{{near[0]}}}?" if near else f"There are: {', '.join(row)}."
        raise ValueError(f"there is no column '{column}'. {hint}")
    value = row[column]
    text = "" if value is None else str(value)
    if not text.strip():
        raise ValueError(f"'{column}' is empty. The template needs a value.")
    return text


@dataclass(frozen=True)
class Shape:
    """Templates that turn a row into a job. A job without a key template derives its key from the payload."""

    url: str | None = None
    """Template of the payload's `url`; without one, the column `url` is used if there is one."""
    key: str | None = None
    """Template of the key."""
    partition: str | None = None
    """Template of the partition; text without braces is the same for all rows."""

    def __post_init__(self) -> None:
        _ = self._templates

    @cached_property
    def _templates(self) -> tuple[Template | None, Template | None, Template | None]:
        url, key, partition = (
            None if text is None else Template(text) for text in (self.url, self.key, self.partition)
        )
        return url, key, partition

    def entry(self, row: Mapping[str, object]) -> InputEntry:
        """Return the job for a row. Raise `ValueError` if the row cannot be a job."""
        url, key, partition = self._templates
        payload = dict(row)
        if url is not None:
            payload["url"] = check_url(url.filled_url(row))
        elif "url" in payload:
            payload["url"] = check_url(clean_url(str(payload["url"] or "")))
        return InputEntry(
            payload=payload,
            key=None if key is None else key.filled(row),
            partition=None if partition is None else partition.filled(row),
        )
