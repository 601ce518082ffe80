"""A CSV file: the first line names the columns, every other line is a job."""

from __future__ import annotations

import csv
import io
import itertools
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NoReturn, TextIO

from longshore.errors import InputFileError
from longshore.runs.sources.template import Shape
from longshore.runs.submit.input_files import LONGEST_LINE, STANDARD_INPUT, InputEntry, is_rereadable, open_bytes

_SEPARATORS = (",", ";", "\t", "|")

# The library's default limit for a value is 128 KB, and a value may be a whole page. The limit is global.
csv.field_size_limit(max(csv.field_size_limit(), LONGEST_LINE))


@dataclass(frozen=True)
class CsvFile:
    """A job for each row, with the columns as its payload; every value is text.

    The file is UTF-8 with comma, `;`, `|` or tab as separator. Quotes, line breaks within quotes, blank lines, a byte
    order mark and Windows line ends are accepted.
    """

    path: str
    """`-` is standard input."""
    shape: Shape = field(default_factory=Shape)

    @property
    def name(self) -> str:
        """Name of the source, for messages."""
        return STANDARD_INPUT if self.path == "-" else self.path

    @property
    def rereadable(self) -> bool:
        """Whether it can be read a second time: a pipe cannot."""
        return is_rereadable(self.path)

    def entries(self) -> Iterator[InputEntry]:
        """Yield every row, in order. Raise `InputFileError`, which names the line, if a row cannot be a job."""
        try:
            with io.TextIOWrapper(open_bytes(self.path), encoding="utf-8-sig", newline="") as file:
                yield from self._rows(file)
        except OSError as error:
            raise InputFileError(f"{self.name} cannot be read: {error.strerror or error}.") from error
        except UnicodeDecodeError as error:
            raise InputFileError(
                f"{self.name} is not UTF-8 text: {error.reason} at byte {error.start + 1} of the last block read. "
                "Save it as UTF-8."
            ) from error

    def refuse_empty(self) -> NoReturn:
        """Raise the `InputFileError` for a file without rows."""
        raise InputFileError(
            f"There are no jobs in {self.name}. Put the names of the columns on the first line, and one job on each "
            "line below."
        )

    def _rows(self, file: TextIO) -> Iterator[InputEntry]:
        first = file.readline()
        separator = max(_SEPARATORS, key=first.count)
        rows = csv.reader(itertools.chain([first], file), delimiter=separator, strict=True)
        columns: list[str] = []
        while True:
            try:
                row = next(rows, None)
                if not columns:
                    columns = [column.strip() for column in row or ()]
                    self._check(columns)
                    continue
                if row is None:
                    return
                if not row:
                    continue
                yield self.shape.entry(_named(columns, row))
            except UnicodeDecodeError:
                raise
            except ValueError as error:
                raise InputFileError(f"{self.name}, line {rows.line_num}: {error}") from error
            except csv.Error as error:
                raise InputFileError(f"{self.name}, line {rows.line_num}: {error}. Correct its quotes.") from error

    def _check(self, columns: list[str]) -> None:
        if not any(columns):
            self.refuse_empty()
        if "" in columns:
            raise InputFileError(
                f"{self.name}, line 1: column {columns.index('') + 1} has no name. Name it, or remove it."
            )
        if twice := [column for column, times in Counter(columns).items() if times > 1]:
            raise InputFileError(f"{self.name}, line 1: two columns are called '{twice[0]}'. Rename one of them.")


def _named(columns: list[str], row: list[str]) -> dict[str, str]:
    if len(row) != len(columns):
        raise ValueError(f"there are {len(row)} values but {len(columns)} columns.")
    return dict(zip(columns, row, strict=True))
